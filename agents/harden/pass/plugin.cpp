// The pass plugin: which functions are hardened, and in which order. Options come by the environment,
// as `-mllvm` options of a plugin are not known to clang when it reads its command line.
#include "harden.h"

#include "llvm/Analysis/OptimizationRemarkEmitter.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Transforms/Utils/Local.h"

#include <cstdlib>

using namespace llvm;

namespace sparecraft {

static Options options_of_environment() {
  const char *asked = std::getenv("SPARECRAFT_HARDEN");
  const StringRef variant = asked ? asked : "native";
  Options options;
  options.rtm = variant == "tx";
  options.log = variant == "log";
  options.ilr = options.rtm || options.log || variant == "ilr";
  if (!options.ilr && variant != "native")
    report_fatal_error("SPARECRAFT_HARDEN: expected native, ilr, tx or log", false);
  const char *flips = std::getenv("SPARECRAFT_FLIPS_BUILD");
  const StringRef sites = flips ? flips : "off";
  options.flips = sites == "results"    ? Sites::results
                  : sites == "operands" ? Sites::operands
                                        : Sites::none;
  const char *loads = std::getenv("SPARECRAFT_LOADS");
  options.loads_again = !loads || StringRef(loads) != "copy";
  return options;
}

struct HardenPass : PassInfoMixin<HardenPass> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    const Options options = options_of_environment();
    for (Function &function : module)
      if (options.ilr && !function.isDeclaration())
        harden(function, options);
    if (options.flips != Sites::none)
      add_flips(module, options.flips);
    if (verifyModule(module, &errs()))
      report_fatal_error("the hardened module is not valid: a defect of the pass", false);
    return PreservedAnalyses::none();
  }

  static bool isRequired() { return true; }

private:
  static void harden(Function &function, const Options &options) {
    if (const StringRef why = left_alone(function); !why.empty()) {
      OptimizationRemarkEmitter emitter(&function);
      emitter.emit(OptimizationRemarkMissed("sparecraft", "LeftAlone", &function)
                   << function.getName() << " is not hardened: " << why);
      return;
    }
    removeUnreachableBlocks(function);
    const Phis phis = add_shadow(function, options);
    if (options.rtm || options.log)
      add_transactions(function, phis, options);
  }
};

}  // namespace sparecraft

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "sparecraft-harden", "1", [](PassBuilder &builder) {
            builder.registerOptimizerLastEPCallback([](ModulePassManager &manager, auto) {
              manager.addPass(sparecraft::HardenPass());
            });
          }};
}
