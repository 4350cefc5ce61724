// An op package: its library, and its interface of version 1.4.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "QnnBackend.h"
#include "QnnOpPackage.h"
#include "log.hpp"

namespace emulator {

class Package {
 public:
  /// Loads and starts a package.  Backends of one process share a package that both register: it has one `init`.
  static Qnn_ErrorHandle_t load(const char* path, const char* provider,
                                QnnOpPackage_GlobalInfrastructure_t infrastructure, bool forwardsLog, const Logger& logger,
                                std::shared_ptr<Package>& made);

  Package() = default;
  ~Package();
  Package(const Package&) = delete;
  Package& operator=(const Package&) = delete;

  const std::string& name() const { return name_; }
  const std::vector<std::string>& operations() const { return operations_; }
  /// True if it was given a log.
  bool listens() const { return listens_; }
  const QnnOpPackage_ImplementationV1_4_t& calls() const { return interface_.v1_4; }

 private:
  std::string name_;
  std::vector<std::string> operations_;
  QnnOpPackage_Interface_t interface_ = {};
  bool started_ = false, listens_ = false;
};

}  // namespace emulator
