// The choice of functions to harden, marks, and copies that no optimisation sees through.
#include "harden.h"

#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace sparecraft {

void mark(Value *value, Stream stream) {
  auto *instruction = dyn_cast<Instruction>(value);
  if (!instruction)
    return;
  LLVMContext &context = instruction->getContext();
  auto *number = ConstantInt::get(Type::getInt8Ty(context), static_cast<uint8_t>(stream));
  instruction->setMetadata(stream_mark, MDNode::get(context, ConstantAsMetadata::get(number)));
}

Stream stream_of(const Instruction &instruction) {
  const MDNode *node = instruction.getMetadata(stream_mark);
  if (!node)
    return Stream::master;
  const auto *number = mdconst::extract<ConstantInt>(node->getOperand(0));
  return static_cast<Stream>(number->getZExtValue());
}

static StringRef left_alone_for(const Instruction &instruction) {
  if (instruction.isEHPad() || isa<InvokeInst>(instruction) || isa<ResumeInst>(instruction))
    return "it handles exceptions";
  if (isa<CallBrInst>(instruction))
    return "it has assembly that jumps";
  const auto *call = dyn_cast<CallInst>(&instruction);
  if (call && call->canReturnTwice())
    return "it calls what returns twice, such as setjmp";
  return "";
}

StringRef left_alone(const Function &function) {
  if (function.hasFnAttribute(Attribute::Naked))
    return "it is naked";
  if (function.hasAvailableExternallyLinkage())
    return "its definition is elsewhere";
  if (function.getName().starts_with("sparecraft_"))
    return "it is of the run-time library";
  for (const BasicBlock &block : function)
    for (const Instruction &instruction : block)
      if (const StringRef why = left_alone_for(instruction); !why.empty())
        return why;
  return "";
}

/// The type by which a value can stand in one register, and the constraint; null: in none.
static std::pair<Type *, const char *> register_of(Type *type, const DataLayout &layout) {
  LLVMContext &context = type->getContext();
  if (type->isPointerTy())
    return {type, "=r,0"};
  if (auto *integer = dyn_cast<IntegerType>(type)) {
    const unsigned bits = integer->getBitWidth();
    if (bits > 64)
      return {nullptr, nullptr};
    return {Type::getIntNTy(context, bits <= 32 ? 32 : 64), "=r,0"};
  }
  if (type->isFloatTy() || type->isDoubleTy())
    return {type, "=x,0"};
  auto *vector = dyn_cast<FixedVectorType>(type);
  if (!vector || vector->getElementType()->isPointerTy())
    return {nullptr, nullptr};
  switch (layout.getTypeSizeInBits(type).getFixedValue()) {
  case 32:
    return {Type::getFloatTy(context), "=x,0"};
  case 64:
    return {Type::getDoubleTy(context), "=x,0"};
  case 128:
    return {FixedVectorType::get(Type::getFloatTy(context), 4), "=x,0"};
  default:
    return {nullptr, nullptr};
  }
}

static Value *copy_of_aggregate(IRBuilder<> &builder, Value *value) {
  Value *copy = PoisonValue::get(value->getType());
  const unsigned parts = isa<StructType>(value->getType())
                             ? value->getType()->getStructNumElements()
                             : value->getType()->getArrayNumElements();
  for (unsigned part = 0; part < parts; part++) {
    Value *one = builder.CreateExtractValue(value, part);
    Value *other = opaque_copy(builder, one);
    copy = builder.CreateInsertValue(copy, other ? other : one, part);
  }
  return copy;
}

Value *opaque_copy(IRBuilder<> &builder, Value *value) {
  Type *type = value->getType();
  if (type->isAggregateType())
    return copy_of_aggregate(builder, value);
  const DataLayout &layout = builder.GetInsertBlock()->getModule()->getDataLayout();
  auto [held, constraint] = register_of(type, layout);
  if (!held)
    return nullptr;
  auto *signature = FunctionType::get(held, {held}, false);
  InlineAsm *copying = InlineAsm::get(signature, "", constraint, false);
  Value *in = type == held              ? value
              : type->isIntegerTy()     ? builder.CreateZExt(value, held)
                                        : builder.CreateBitCast(value, held);
  CallInst *out = builder.CreateCall(signature, copying, {in});
  out->setDoesNotAccessMemory();
  out->setDoesNotThrow();
  mark(out, Stream::shadow);
  if (type == held)
    return out;
  return type->isIntegerTy() ? builder.CreateTrunc(out, type) : builder.CreateBitCast(out, type);
}

static Value *checked(Value *value) {
  mark(value, Stream::check);
  return value;
}

static Value *are_unequal_parts(IRBuilder<> &builder, Value *one, Value *other) {
  Type *type = one->getType();
  const unsigned parts =
      isa<StructType>(type) ? type->getStructNumElements() : type->getArrayNumElements();
  Value *unequal = builder.getFalse();
  for (unsigned part = 0; part < parts; part++) {
    Value *left = checked(builder.CreateExtractValue(one, part));
    Value *right = checked(builder.CreateExtractValue(other, part));
    unequal = checked(builder.CreateOr(unequal, are_unequal(builder, left, right)));
  }
  return unequal;
}

Value *are_unequal(IRBuilder<> &builder, Value *one, Value *other) {
  Type *type = one->getType();
  if (type->isAggregateType())
    return are_unequal_parts(builder, one, other);
  if (!type->isIntegerTy() && !type->isPointerTy()) {
    if (type->isPtrOrPtrVectorTy()) {
      auto *vector =
          VectorType::get(builder.getInt64Ty(), cast<VectorType>(type)->getElementCount());
      one = builder.CreatePtrToInt(one, vector);
      other = builder.CreatePtrToInt(other, vector);
    }
    Type *bits = builder.getIntNTy(one->getType()->getPrimitiveSizeInBits().getFixedValue());
    one = checked(builder.CreateBitCast(one, bits));
    other = checked(builder.CreateBitCast(other, bits));
  }
  return checked(builder.CreateICmpNE(one, other));
}

BasicBlock *differing_block(Function &function) {
  LLVMContext &context = function.getContext();
  auto *block = BasicBlock::Create(context, "differ", &function);
  IRBuilder<> builder(block);
  if (auto *scope = function.getSubprogram())
    builder.SetCurrentDebugLocation(DILocation::get(context, 0, 0, scope));
  Module *module = function.getParent();
  FunctionCallee stop =
      module->getOrInsertFunction("sparecraft_differ", builder.getVoidTy(), builder.getPtrTy());
  auto *declared = cast<Function>(stop.getCallee());
  declared->addFnAttr(Attribute::Cold);
  declared->addFnAttr(Attribute::NoReturn);
  declared->addFnAttr(Attribute::NoUnwind);
  builder.CreateCall(stop, {builder.CreateGlobalString(function.getName())});
  builder.CreateUnreachable();
  return block;
}

bool is_pure_assembly(const CallBase &call) {
  return call.isInlineAsm() && !cast<InlineAsm>(call.getCalledOperand())->hasSideEffects() &&
         call.doesNotAccessMemory();
}

bool is_annotation(const CallBase &call) {
  const auto *intrinsic = dyn_cast<IntrinsicInst>(&call);
  return intrinsic && (isa<DbgInfoIntrinsic>(intrinsic) || intrinsic->isLifetimeStartOrEnd() ||
                       intrinsic->isAssumeLikeIntrinsic());
}

bool is_pure_intrinsic(const CallBase &call) {
  const auto *intrinsic = dyn_cast<IntrinsicInst>(&call);
  return intrinsic && !is_annotation(call) && intrinsic->doesNotAccessMemory() &&
         !intrinsic->mayHaveSideEffects() && !intrinsic->isConvergent() &&
         !intrinsic->getType()->isTokenTy() && !intrinsic->getType()->isVoidTy();
}

bool returns_at_once(const CallBase &call) {
  const auto *after = dyn_cast_or_null<ReturnInst>(call.getNextNonDebugInstruction());
  return after && (call.use_empty() || (call.hasOneUse() && after->getReturnValue() == &call));
}

}  // namespace sparecraft
