// ILR, instruction-level redundancy (Reis et al., SWIFT, CGO 2005; HAFT, EuroSys 2016; PCRAFT section II).
//
// Every data-flow instruction has a twin that computes on twins. Both streams share memory and control
// flow; they are compared before a value leaves the registers: stores, branches, calls, returns, atomics.
// Twins begin where values come in (arguments, results of calls, constants of phis) as copies by an
// empty assembly, which keeps every later optimisation from finding out that both streams are equal.
// A value without a twin is a constant of the program or of the frame: folded into addresses anyway.
#include "harden.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"

using namespace llvm;

namespace sparecraft {
namespace {

class Shadow {
public:
  Shadow(Function &function, const Options &options) : function(function), options(options) {}

  Phis add() {
    return_where_called();
    replace_undefined();
    snapshot();
    twin_arguments();
    for (Instruction *instruction : all)
      twin(*instruction);
    fill_phis();
    for (Instruction *instruction : all)
      check(*instruction);
    for (Instruction *instruction : all)
      if (auto *branch = dyn_cast<BranchInst>(instruction))
        check_edges(*branch);
    return Phis(phis.begin(), phis.end());
  }

private:
  Function &function;
  const Options &options;
  DenseMap<Value *, Value *> twins;
  SmallVector<Instruction *, 64> all;
  SmallVector<std::pair<PHINode *, PHINode *>, 16> phis;
  BasicBlock *differ = nullptr;

  void snapshot() {
    for (BasicBlock *block : ReversePostOrderTraversal<Function *>(&function))
      for (Instruction &instruction : *block)
        all.push_back(&instruction);
  }

  /// A call whose result goes straight into a common return gets its own: it can stay a tail call,
  /// which the copy of a result would prevent.
  void return_where_called() {
    SmallVector<BasicBlock *, 4> returning;
    for (BasicBlock &block : function) {
      auto *ending = dyn_cast<ReturnInst>(block.getTerminator());
      auto *phi = dyn_cast<PHINode>(&block.front());
      if (ending && phi && phi->hasOneUse() && ending->getReturnValue() == phi &&
          block.sizeWithoutDebug() == 2)
        returning.push_back(&block);
    }
    for (BasicBlock *block : returning)
      for (BasicBlock *before : SmallVector<BasicBlock *, 8>(predecessors(block)))
        return_from(*before, *block);
  }

  static void return_from(BasicBlock &before, BasicBlock &block) {
    auto *branch = dyn_cast<BranchInst>(before.getTerminator());
    auto *phi = cast<PHINode>(&block.front());
    auto *call = dyn_cast<CallInst>(phi->getIncomingValueForBlock(&before));
    if (!branch || branch->isConditional() || !call || !call->hasOneUse() || !call->isTailCall() ||
        call->getNextNonDebugInstruction() != branch || pred_size(&block) < 2)
      return;
    block.removePredecessor(&before, true);
    ReturnInst *own = ReturnInst::Create(before.getContext(), call, &before);
    own->setDebugLoc(branch->getDebugLoc());
    branch->eraseFromParent();
  }

  /// What is undefined may differ between two registers: it becomes zero, which is as good as any.
  void replace_undefined() {
    for (BasicBlock &block : function)
      for (Instruction &instruction : block) {
        if (auto *shuffle = dyn_cast<ShuffleVectorInst>(&instruction))
          define_lanes(*shuffle);
        if (isa<CallBase>(instruction))
          continue;
        for (Use &use : instruction.operands())
          if (isa<UndefValue>(use) && !use->getType()->isTokenTy())
            use.set(Constant::getNullValue(use->getType()));
      }
  }

  static void define_lanes(ShuffleVectorInst &shuffle) {
    SmallVector<int, 16> lanes(shuffle.getShuffleMask());
    for (int &lane : lanes)
      lane = lane < 0 ? 0 : lane;
    shuffle.setShuffleMask(lanes);
  }

  Value *twin_or_self(Value *value) const {
    auto found = twins.find(value);
    return found == twins.end() ? value : found->second;
  }

  bool has_twin(Value *value) const { return twins.count(value) != 0; }

  void keep(Value *value, Value *twin) {
    if (!twin)
      return;
    mark(twin, Stream::shadow);
    twins[value] = twin;
  }

  void twin_arguments() {
    IRBuilder<> builder(&*function.getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
    for (Argument &argument : function.args())
      if (!argument.hasByValAttr() && !argument.getType()->isTokenTy())
        keep(&argument, opaque_copy(builder, &argument));
  }

  static bool computes(const Instruction &instruction) {
    return isa<UnaryOperator, BinaryOperator, CastInst, CmpInst, GetElementPtrInst, SelectInst,
               FreezeInst, ExtractElementInst, InsertElementInst, ShuffleVectorInst,
               ExtractValueInst, InsertValueInst>(instruction);
  }

  void twin(Instruction &instruction) {
    if (auto *phi = dyn_cast<PHINode>(&instruction)) {
      twin_phi(*phi);
    } else if (auto *load = dyn_cast<LoadInst>(&instruction)) {
      twin_load(*load);
    } else if (auto *call = dyn_cast<CallBase>(&instruction)) {
      twin_call(*call);
    } else if (computes(instruction)) {
      clone(instruction);
    } else if (isa<AtomicRMWInst, AtomicCmpXchgInst, VAArgInst>(instruction)) {
      copy(instruction);
    } else if (auto *room = dyn_cast<AllocaInst>(&instruction); room && !room->isStaticAlloca()) {
      copy(instruction);
    }
  }

  /// A twin counter is copied in each round: else loop strength reduction, which sees that both
  /// counters step alike, lets both streams use one.
  void twin_phi(PHINode &phi) {
    auto *other = PHINode::Create(phi.getType(), phi.getNumIncomingValues(), "");
    other->insertAfter(&phi);
    phis.emplace_back(&phi, other);
    IRBuilder<> builder(&*phi.getParent()->getFirstInsertionPt());
    Value *copied = opaque_copy(builder, other);
    keep(&phi, copied ? copied : other);
  }

  void copy(Instruction &instruction) {
    IRBuilder<> builder(instruction.getNextNode());
    keep(&instruction, opaque_copy(builder, &instruction));
  }

  /// Where no operand has a twin (an address in a local) the first is copied: two that are computed
  /// alike would become one.
  void clone(Instruction &instruction) {
    IRBuilder<> builder(instruction.getNextNode());
    Instruction *other = instruction.clone();
    bool differs = false;
    for (Use &use : other->operands()) {
      differs |= has_twin(use);
      use.set(twin_or_self(use));
    }
    if (!differs && !isa<CallBase>(instruction)) {
      Value *copied = opaque_copy(builder, instruction.getOperand(0));
      if (!copied)
        return other->deleteValue();
      other->setOperand(0, copied);
    }
    builder.Insert(other);
    if (differs || !isa<CallBase>(instruction))
      return keep(&instruction, other);
    mark(other, Stream::shadow);  // an intrinsic that wants a constant: where a thread's variable lies
    keep(&instruction, opaque_copy(builder, other));
  }

  void twin_load(LoadInst &load) {
    if (!load.isSimple() || !options.loads_again)
      return copy(load);
    IRBuilder<> builder(load.getNextNode());
    Value *address = load.getPointerOperand();
    Value *other = has_twin(address) ? twins[address] : opaque_copy(builder, address);
    auto *again = cast<LoadInst>(load.clone());
    again->setOperand(LoadInst::getPointerOperandIndex(), other);
    builder.Insert(again);
    keep(&load, again);
  }

  void twin_call(CallBase &call) {
    if (is_pure_intrinsic(call))
      return clone(call);
    if (!call.getType()->isVoidTy() && !is_annotation(call) && !call.isMustTailCall() &&
        !returns_at_once(call) && !call.getType()->isTokenTy())
      copy(call);
  }

  void fill_phis() {
    for (auto [phi, other] : phis)
      fill(*phi, *other);
  }

  void fill(PHINode &phi, PHINode &other) {
    DenseMap<BasicBlock *, Value *> from;  // a block may come in twice, with the same value
    for (unsigned place = 0; place < phi.getNumIncomingValues(); place++) {
      Value *value = phi.getIncomingValue(place);
      BasicBlock *block = phi.getIncomingBlock(place);
      Value *&incoming = from[block];
      if (!incoming && !has_twin(value)) {
        IRBuilder<> builder(block->getTerminator());
        incoming = opaque_copy(builder, value);
      }
      if (!incoming)
        incoming = twin_or_self(value);
      other.addIncoming(incoming, block);
    }
  }

  void check(Instruction &instruction) {
    SmallVector<Value *, 8> leaving;
    if (auto *store = dyn_cast<StoreInst>(&instruction)) {
      leaving = {store->getPointerOperand(), store->getValueOperand()};
    } else if (auto *load = dyn_cast<LoadInst>(&instruction)) {
      if (!load->isSimple() || !options.loads_again)
        leaving = {load->getPointerOperand()};
    } else if (auto *call = dyn_cast<CallBase>(&instruction)) {
      if (is_pure_intrinsic(*call) || is_annotation(*call))
        return;
      leaving.append(call->data_operands_begin(), call->data_operands_end());
      if (call->isIndirectCall())
        leaving.push_back(call->getCalledOperand());
    } else if (auto *branch = dyn_cast<BranchInst>(&instruction)) {
      (void)branch;  // on its edges
      return;
    } else if (instruction.isTerminator() || isa<AllocaInst>(instruction) ||
               isa<AtomicRMWInst, AtomicCmpXchgInst, VAArgInst>(instruction)) {
      for (Value *operand : instruction.operands())
        leaving.push_back(operand);
    }
    compare_before(instruction, leaving);
  }

  void compare_before(Instruction &instruction, ArrayRef<Value *> values) {
    IRBuilder<> builder(&instruction);
    Value *unequal = nullptr;
    for (Value *value : values)
      if (has_twin(value)) {
        Value *one = are_unequal(builder, value, twins[value]);
        unequal = unequal ? builder.CreateOr(unequal, one) : one;
        mark(unequal, Stream::check);
      }
    if (!unequal)
      return;
    BasicBlock *before = instruction.getParent();
    BasicBlock *after = before->splitBasicBlock(&instruction);
    before->getTerminator()->eraseFromParent();
    IRBuilder<> ending(before);
    ending.SetCurrentDebugLocation(instruction.getDebugLoc());
    ending.CreateCondBr(unequal, differing(), after, weights(1, 1 << 20));
  }

  /// A branch's condition is compared after it was taken: by the shadow's own, on both ways.
  void check_edges(BranchInst &branch) {
    if (!branch.isConditional() || !has_twin(branch.getCondition()) ||
        branch.getSuccessor(0) == branch.getSuccessor(1))
      return;
    Value *other = twins[branch.getCondition()];
    for (unsigned way = 0; way < 2; way++) {
      BasicBlock *target = branch.getSuccessor(way);
      auto *edge = BasicBlock::Create(function.getContext(), "", &function, target);
      IRBuilder<> builder(edge);
      builder.SetCurrentDebugLocation(branch.getDebugLoc());
      if (way == 0)
        builder.CreateCondBr(other, target, differing(), weights(1 << 20, 1));
      else
        builder.CreateCondBr(other, differing(), target, weights(1, 1 << 20));
      target->replacePhiUsesWith(branch.getParent(), edge);
      branch.setSuccessor(way, edge);
    }
  }

  MDNode *weights(unsigned yes, unsigned no) {
    return MDBuilder(function.getContext()).createBranchWeights(yes, no);
  }

  BasicBlock *differing() {
    if (!differ)
      differ = differing_block(function);
    return differ;
  }
};

}  // namespace

Phis add_shadow(Function &function, const Options &options) {
  return Shadow(function, options).add();
}

}  // namespace sparecraft
