#include "ops/AddRow.hpp"

namespace ops::TwelvePackage::AddRow {

udo::Status execute(const Args& args) {
  for (std::size_t i = 0; i < args.y.size(); ++i) args.y[i] = args.x[i] + args.row[i % args.row.size()];
  return udo::ok;
}

}  // namespace ops::TwelvePackage::AddRow
