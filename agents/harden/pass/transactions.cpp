// Tx: the function runs in transactions (HAFT, EuroSys 2016; PCRAFT section II).
//
// One begins where a function is entered and after each call, and is committed before each call, return,
// atomic and volatile access, so that a transaction never leaves its function's frame, and system calls
// are outside. Loops count what they have run and split a transaction that is long. What the run-time
// library does at these points is its own: hardware transactions (RTM), or a checkpoint and a log of the
// stores (`log`). Begin and commit do not have to match: a begin commits what is open.
#include "harden.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/PromoteMemToReg.h"

using namespace llvm;

namespace sparecraft {
namespace {

constexpr unsigned worth_it = 6;  // instructions: less between two calls is left to ILR alone

class Transactions {
public:
  Transactions(Function &function, const Phis &phis, const Options &options)
      : function(function), phis(phis), options(options), type(Type::getVoidTy(function.getContext())) {
    const bool log = options.log;
    begin = declare(log ? "sparecraft_log_begin" : "sparecraft_tx_begin", {});
    commit = declare(log ? "sparecraft_log_commit" : "sparecraft_tx_commit", {});
    if (log) {
      auto *pointer = PointerType::get(function.getContext(), 0);
      store = declare("sparecraft_log_store", {pointer, Type::getInt32Ty(function.getContext())});
      function.addFnAttr("frame-pointer", "all");  // the checkpoint copies the frame
    }
  }

  void add() {
    SmallVector<Instruction *, 32> boundaries;
    for (BasicBlock &block : function)
      for (Instruction &instruction : block)
        if (is_boundary(instruction))
          boundaries.push_back(&instruction);
    if (options.log)
      log_stores();
    count_in_loops();
    for (Instruction *boundary : boundaries)
      bound(*boundary);
    Instruction *first = &*function.getEntryBlock().getFirstNonPHIOrDbgOrAlloca();
    if (length_from(first) >= worth_it)
      call(begin, first);
    PromoteMemToReg(counted, *tree);
  }

private:
  Function &function;
  const Phis &phis;
  const Options &options;
  Type *type;
  FunctionCallee begin, commit, store;
  AllocaInst *counted = nullptr;
  std::optional<DominatorTree> tree;

  FunctionCallee declare(StringRef name, ArrayRef<Type *> arguments) {
    auto *signature = FunctionType::get(type, arguments, false);
    FunctionCallee found = function.getParent()->getOrInsertFunction(name, signature);
    auto *declared = cast<Function>(found.getCallee());
    declared->setCallingConv(CallingConv::PreserveMost);
    declared->addFnAttr(Attribute::NoUnwind);
    return found;
  }

  CallInst *call(FunctionCallee callee, Instruction *before, ArrayRef<Value *> arguments = {}) {
    IRBuilder<> builder(before);
    CallInst *made = builder.CreateCall(callee, arguments);
    made->setCallingConv(CallingConv::PreserveMost);
    return made;
  }

  static bool is_boundary(const Instruction &instruction) {
    if (isa<ReturnInst>(instruction) || instruction.isAtomic() || instruction.isVolatile())
      return true;
    const auto *call = dyn_cast<CallBase>(&instruction);
    if (!call || is_annotation(*call) || is_pure_intrinsic(*call) || is_pure_assembly(*call))
      return false;
    const Function *callee = call->getCalledFunction();
    return !callee || callee->getName() != "sparecraft_differ";
  }

  /// Instructions up to the next boundary of a block; a block's end is far enough.
  static unsigned length_from(const Instruction *first) {
    unsigned length = 0;
    for (const Instruction *at = first; at; at = at->getNextNode(), length++)
      if (is_boundary(*at) || length >= worth_it)
        return length;
    return worth_it;
  }

  void bound(Instruction &boundary) {
    if (auto *call_made = dyn_cast<CallBase>(&boundary))
      if (call_made->isMustTailCall())
        return (void)call(commit, &boundary);
    if (auto *ending = dyn_cast<ReturnInst>(&boundary)) {
      const auto *last = dyn_cast_or_null<CallBase>(ending->getPrevNonDebugInstruction());
      if (!last || !is_boundary(*last))
        call(commit, &boundary);
      return;
    }
    call(commit, &boundary);
    Instruction *next = boundary.getNextNode();
    if (length_from(next) < worth_it)
      return;
    IRBuilder<> builder(next);
    builder.CreateStore(builder.getInt32(0), counted);
    call(begin, next);
  }

  void count_in_loops() {
    IRBuilder<> builder(&*function.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    counted = builder.CreateAlloca(builder.getInt32Ty());
    counted->moveBefore(&function.getEntryBlock().front());
    builder.CreateStore(builder.getInt32(0), counted);
    tree.emplace(function);
    LoopInfo loops(*tree);
    SmallVector<Counted, 16> headers;
    for (Loop *loop : loops.getLoopsInPreorder()) {
      Counted one{loop->getHeader(), own_size(*loop, loops), {}};
      for (Loop *around = loop; around; around = around->getParentLoop())
        for (PHINode &phi : around->getHeader()->phis())
          if (phis.count(&phi))
            one.live.push_back(&phi);
      headers.push_back(one);
    }
    for (const Counted &one : headers)
      count(one);
    tree->recalculate(function);
  }

  struct Counted {
    BasicBlock *header;
    unsigned size;
    SmallVector<PHINode *, 8> live;  // its own and of the loops around it
  };

  static unsigned own_size(const Loop &loop, const LoopInfo &loops) {
    unsigned size = 0;
    for (BasicBlock *block : loop.blocks())
      if (loops.getLoopFor(block) == &loop)
        size += block->sizeWithoutDebug();
    return size;
  }

  void count(const Counted &loop) {
    Instruction *first = &*loop.header->getFirstInsertionPt();
    IRBuilder<> builder(first);
    Value *before = builder.CreateLoad(builder.getInt32Ty(), counted);
    Value *now = builder.CreateAdd(before, builder.getInt32(loop.size));
    builder.CreateStore(now, counted);
    Value *is_long = builder.CreateICmpUGT(now, builder.getInt32(options.size_max));
    for (Value *added : {before, now, is_long})
      mark(added, Stream::check);
    MDNode *rarely = MDBuilder(function.getContext()).createBranchWeights(1, 100);
    Instruction *inside = SplitBlockAndInsertIfThen(is_long, first, false, rarely);
    IRBuilder<> splitting(inside);
    splitting.CreateStore(splitting.getInt32(0), counted);
    call(begin, inside);  // commits what is open
    compare_live(inside, loop.live);
  }

  /// What a long loop carries in registers is compared before it is committed: the next transaction
  /// could not correct it.
  void compare_live(Instruction *inside, ArrayRef<PHINode *> live) {
    IRBuilder<> builder(&inside->getParent()->front());
    Value *unequal = nullptr;
    for (PHINode *phi : live) {
      Value *one = are_unequal(builder, phi, phis.lookup(phi));
      unequal = unequal ? builder.CreateOr(unequal, one) : one;
      mark(unequal, Stream::check);
    }
    if (!unequal)
      return;
    BasicBlock *comparing = inside->getParent();
    BasicBlock *splitting = comparing->splitBasicBlock(builder.GetInsertPoint());
    comparing->getTerminator()->eraseFromParent();
    BranchInst::Create(differing_block(function), splitting, unequal, comparing);
  }

  void log_stores() {
    SmallVector<StoreInst *, 32> stores;
    for (BasicBlock &block : function)
      for (Instruction &instruction : block)
        if (auto *one = dyn_cast<StoreInst>(&instruction); one && one->isSimple())
          stores.push_back(one);
    const DataLayout &layout = function.getParent()->getDataLayout();
    for (StoreInst *one : stores) {
      const auto size = layout.getTypeStoreSize(one->getValueOperand()->getType());
      IRBuilder<> builder(one);
      call(store, one, {one->getPointerOperand(), builder.getInt32(size.getFixedValue())});
    }
  }
};

}  // namespace

void add_transactions(Function &function, const Phis &phis, const Options &options) {
  Transactions(function, phis, options).add();
}

}  // namespace sparecraft
