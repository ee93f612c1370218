// What the parts of the pass share: the variants, who is hardened, and marks on what was added.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

namespace sparecraft {

/// Where bits can be flipped: nowhere, in every result of an instruction, or in every operand of
/// what has none and lets a value go: stores, branches, calls, returns, after it was compared.
enum class Sites : uint8_t { none, results, operands };

/// What the environment of the compiler asks for (sparecraft-cc sets it).
struct Options {
  bool ilr = false;          // a shadow data flow, compared
  bool rtm = false;          // hardware transactions around it
  bool log = false;          // transactions in software: a checkpoint and a log of stores
  Sites flips = Sites::none; // what can have a bit flipped
  bool loads_again = true;   // the shadow loads for itself; else it copies what was loaded
  unsigned size_max = 1000;  // IR instructions of a transaction that a loop may reach
};

/// Where an instruction stems from, as injections name it.
enum class Stream : uint8_t { master = 0, shadow = 1, check = 2 };

inline constexpr llvm::StringLiteral stream_mark = "sparecraft.stream";

void mark(llvm::Value *value, Stream stream);
Stream stream_of(const llvm::Instruction &instruction);

/// Why a function stays as it is; empty where it is hardened.
llvm::StringRef left_alone(const llvm::Function &function);

/// A copy that no optimisation sees through; null where registers of the type are none of ours.
llvm::Value *opaque_copy(llvm::IRBuilder<> &builder, llvm::Value *value);

/// Whether it is such a copy, or other assembly without effects.
bool is_pure_assembly(const llvm::CallBase &call);

/// Whether a call is an intrinsic that computes and nothing else.
bool is_pure_intrinsic(const llvm::CallBase &call);

/// Whether a call is to be ignored: debug, lifetimes, assumptions.
bool is_annotation(const llvm::CallBase &call);

/// Whether nothing but the function's return follows a call.
bool returns_at_once(const llvm::CallBase &call);

/// Whether two values of one type differ, in any bit.
llvm::Value *are_unequal(llvm::IRBuilder<> &builder, llvm::Value *one, llvm::Value *other);

/// The block that stops, or tries again, as both streams differ.
llvm::BasicBlock *differing_block(llvm::Function &function);

/// Phis and their twins.
using Phis = llvm::DenseMap<llvm::PHINode *, llvm::PHINode *>;

Phis add_shadow(llvm::Function &function, const Options &options);
void add_transactions(llvm::Function &function, const Phis &phis, const Options &options);
void add_flips(llvm::Module &module, Sites sites);

}  // namespace sparecraft
