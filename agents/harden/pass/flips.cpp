// Bit flips: every dynamic result of an instruction (master, shadow or check) is a site, or every operand
// of a store, branch, call or return, struck between its comparison and its use; one is flipped.
//
// A block counts its sites down in one go (`sparecraft_flip_left`). Where the count falls below zero the
// run-time library is asked once for the site in the block and the mask, and exactly this one result is
// changed; elsewhere a result meets a comparison and an exclusive or with zero.
#include "harden.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace sparecraft {
namespace {

class Flips {
public:
  Flips(Module &module, Sites kind)
      : module(module), kind(kind), context(module.getContext()), number(Type::getInt64Ty(context)),
        entry(StructType::get(PointerType::get(context, 0), PointerType::get(context, 0),
                              Type::getInt32Ty(context), Type::getInt16Ty(context),
                              Type::getInt16Ty(context))) {}

  void add() {
    left = module.getOrInsertGlobal("sparecraft_flip_left", number);
    high = module.getOrInsertGlobal("sparecraft_flip_high", number);
    auto *pointer = PointerType::get(context, 0);
    fire = module.getOrInsertFunction("sparecraft_flip_fire", number, pointer, number);
    cast<Function>(fire.getCallee())->addFnAttr(Attribute::Cold);
    placeholder = new GlobalVariable(module, ArrayType::get(entry, 0), true,
                                     GlobalValue::ExternalLinkage, nullptr, "sites");
    for (Function &function : module)
      if (!function.isDeclaration() && !function.getName().starts_with("sparecraft_") &&
          !function.hasFnAttribute(Attribute::Naked))
        add_to(function);
    auto *table_type = ArrayType::get(entry, table.size());
    auto *sites = new GlobalVariable(module, table_type, true, GlobalValue::PrivateLinkage,
                                     ConstantArray::get(table_type, table), "sparecraft_sites");
    placeholder->replaceAllUsesWith(sites);
    placeholder->eraseFromParent();
  }

private:
  Module &module;
  Sites kind;
  LLVMContext &context;
  Type *number;
  StructType *entry;
  Constant *left = nullptr, *high = nullptr;
  FunctionCallee fire;
  GlobalVariable *placeholder = nullptr;
  SmallVector<Constant *, 0> table;

  static unsigned bits_of(const Instruction &instruction) {
    Type *type = instruction.getType();
    if (type->isPointerTy())
      return 64;
    return type->getPrimitiveSizeInBits().getKnownMinValue();
  }

  /// What has a result in a register, made by this instruction: copies and calls have not.
  static bool is_site(const Instruction &instruction) {
    if (isa<PHINode, AllocaInst, FreezeInst, BitCastInst, PtrToIntInst, IntToPtrInst,
            ExtractValueInst, InsertValueInst, LandingPadInst>(instruction))
      return false;
    if (const auto *call = dyn_cast<CallBase>(&instruction))
      if (!is_pure_intrinsic(*call))
        return false;
    Type *type = instruction.getType();
    if (isa<FixedVectorType>(type) && cast<FixedVectorType>(type)->getElementType()->isPointerTy())
      return false;
    const bool held = type->isIntegerTy() || type->isFloatTy() || type->isDoubleTy() ||
                      type->isPointerTy() || isa<FixedVectorType>(type);
    const unsigned bits = bits_of(instruction);
    return held && bits > 0 && bits <= 512 && !instruction.isTerminator();
  }

  void add_to(Function &function) {
    SmallVector<BasicBlock *, 32> blocks;
    for (BasicBlock &block : function)
      blocks.push_back(&block);
    Constant *name = named(function.getName(), function);
    for (BasicBlock *block : blocks)
      add_to(*block, name);
  }

  Constant *named(StringRef text, Function &function) {
    return IRBuilder<>(&function.getEntryBlock(), function.getEntryBlock().begin())
        .CreateGlobalString(text, "", 0, &module);
  }

  void add_to(BasicBlock &block, Constant *name) {
    if (kind == Sites::operands)
      bring_out_operands(block);
    Instruction *first = &*block.getFirstInsertionPt();
    if (isa<AllocaInst>(first))
      first = &*block.getFirstNonPHIOrDbgOrAlloca();
    SmallVector<Instruction *, 32> sites;
    SmallVector<std::pair<Instruction *, SmallVector<Instruction *, 32>>, 4> parts;
    for (Instruction &instruction : block) {
      if (kind == Sites::operands ? brought_out.count(&instruction) : is_site(instruction))
        sites.push_back(&instruction);
      if (begins_transaction(instruction)) {
        parts.emplace_back(first, std::move(sites));
        sites.clear();
        first = instruction.getNextNode();
      }
    }
    parts.emplace_back(first, std::move(sites));
    for (auto &[begin, own] : parts)
      if (!own.empty())
        add_to(begin, own, name);
  }

  /// What is flipped is drawn within the transaction, so that an abort does not bring it back.
  static bool begins_transaction(const Instruction &instruction) {
    const auto *call = dyn_cast<CallBase>(&instruction);
    const Function *callee = call ? call->getCalledFunction() : nullptr;
    return callee && (callee->getName() == "sparecraft_tx_begin" ||
                      callee->getName() == "sparecraft_log_begin");
  }

  void add_to(Instruction *first, ArrayRef<Instruction *> sites, Constant *name) {
    const auto base = table.size();
    for (Instruction *site : sites)
      describe(*site, name);
    auto [chosen, low, up] = count(first, sites.size(), base);
    for (unsigned place = 0; place < sites.size(); place++)
      flip(*sites[place], chosen, low, up, place);
  }

  SmallPtrSet<Instruction *, 32> brought_out;

  /// Each operand that a value leaves by gets a copy of its own, for this use alone.
  void bring_out_operands(BasicBlock &block) {
    SmallVector<Use *, 32> uses;
    for (Instruction &instruction : block) {
      if (auto *call = dyn_cast<CallBase>(&instruction)) {
        if (call->isMustTailCall() || is_pure_intrinsic(*call) || is_annotation(*call) ||
            is_of_library(*call))
          continue;
        for (Use &use : call->args())
          uses.push_back(&use);
      } else if (isa<StoreInst, BranchInst, SwitchInst, ReturnInst>(instruction)) {
        for (Use &use : instruction.operands())
          uses.push_back(&use);
      }
    }
    for (Use *use : uses)
      bring_out(*use);
  }

  static bool is_of_library(const CallBase &call) {
    const Function *callee = call.getCalledFunction();
    return is_pure_assembly(call) || (callee && callee->isIntrinsic()) ||
           (callee && callee->getName().starts_with("sparecraft_"));
  }

  void bring_out(Use &use) {
    auto *user = cast<Instruction>(use.getUser());
    Type *type = use->getType();
    if (isa<Constant>(use) || !(type->isIntegerTy() || type->isPointerTy() || type->isFloatTy() ||
                                type->isDoubleTy()))
      return;
    auto *copy = new FreezeInst(use, "", user);
    copy->setDebugLoc(user->getDebugLoc());
    names[copy] = user->getOpcodeName();
    brought_out.insert(copy);
    use.set(copy);
  }

  DenseMap<const Instruction *, const char *> names;

  void describe(const Instruction &site, Constant *name) {
    const DebugLoc &location = site.getDebugLoc();
    auto *small = Type::getInt16Ty(context);
    const unsigned kind = static_cast<unsigned>(stream_of(site)) << 8 | (site.getOpcode() & 255);
    table.push_back(ConstantStruct::get(
        entry, name, opcode_named(names.count(&site) ? names[&site] : site.getOpcodeName()),
        ConstantInt::get(Type::getInt32Ty(context), location ? location.getLine() : 0),
        ConstantInt::get(small, bits_of(site)), ConstantInt::get(small, kind)));
  }

  StringMap<Constant *> opcodes;
  Constant *opcode_named(StringRef text) {
    Constant *&found = opcodes[text];
    if (!found) {
      Constant *letters = ConstantDataArray::getString(context, text);
      found = new GlobalVariable(module, letters->getType(), true, GlobalValue::PrivateLinkage,
                                 letters, "sparecraft_opcode");
    }
    return found;
  }

  struct Drawn {
    Value *chosen, *low, *up;
  };

  Drawn count(Instruction *first, size_t sites, size_t base) {
    IRBuilder<> builder(first);
    Value *before = builder.CreateLoad(number, left);
    Value *now = builder.CreateSub(before, ConstantInt::get(number, sites));
    builder.CreateStore(now, left);
    Value *is_here = builder.CreateICmpSLT(now, ConstantInt::get(number, 0));
    MDNode *rarely = MDBuilder(context).createBranchWeights(1, 1 << 20);
    BasicBlock *counting = first->getParent();
    Instruction *inside = SplitBlockAndInsertIfThen(is_here, first, false, rarely);
    IRBuilder<> asking(inside);
    if (auto *scope = inside->getFunction()->getSubprogram())
      asking.SetCurrentDebugLocation(DILocation::get(context, 0, 0, scope));
    Value *place = asking.CreateAdd(now, ConstantInt::get(number, sites));
    Constant *offset = ConstantInt::get(number, base);
    Value *described = asking.CreateInBoundsGEP(entry, placeholder, {offset});
    Value *mask = asking.CreateCall(fire, {described, place});
    Value *mask_up = asking.CreateLoad(number, high);
    IRBuilder<> after(&*first->getParent()->begin());
    auto join = [&](Constant *otherwise, Value *asked) {
      PHINode *phi = after.CreatePHI(number, 2);
      phi->addIncoming(otherwise, counting);
      phi->addIncoming(asked, inside->getParent());
      return phi;
    };
    auto *none = ConstantInt::get(number, 0);
    return {join(ConstantInt::getSigned(number, -1), place), join(none, mask), join(none, mask_up)};
  }

  void flip(Instruction &site, Value *chosen, Value *low, Value *up, unsigned place) {
    IRBuilder<> builder(site.getNextNode());
    builder.SetCurrentDebugLocation(site.getDebugLoc());
    Value *here = builder.CreateICmpEQ(chosen, ConstantInt::get(number, place));
    Type *type = site.getType();
    const unsigned bits = bits_of(site);
    auto *whole = builder.getIntNTy(bits);
    Value *mask = builder.CreateZExtOrTrunc(low, whole);
    if (bits > 64) {
      Value *shifted = builder.CreateShl(builder.CreateZExtOrTrunc(up, whole), 64);
      mask = builder.CreateOr(mask, shifted);
    }
    mask = builder.CreateSelect(here, mask, ConstantInt::get(whole, 0));
    Value *plain = type->isPointerTy()   ? builder.CreatePtrToInt(&site, whole)
                   : type->isIntegerTy() ? static_cast<Value *>(&site)
                                         : builder.CreateBitCast(&site, whole);
    auto *before = dyn_cast<Instruction>(plain);
    Value *changed = builder.CreateXor(plain, mask);
    auto *first_user = cast<Instruction>(changed);
    Value *back = type->isPointerTy()   ? builder.CreateIntToPtr(changed, type)
                  : type->isIntegerTy() ? changed
                                        : builder.CreateBitCast(changed, type);
    site.replaceUsesWithIf(back, [&](Use &use) {
      return use.getUser() != first_user && use.getUser() != before;
    });
  }
};

}  // namespace

void add_flips(Module &module, Sites sites) { Flips(module, sites).add(); }

}  // namespace sparecraft
