// Only CPU packages report to `udogen` why they refused a node.
#if !defined(__hexagon__)

namespace udo {
namespace {

void accept() {}
void refuseType(const char*, List<Qnn_DataType_t>) {}
void refuseRank(const char*, List<std::uint32_t>) {}
void refuseOp() {}

}  // namespace
}  // namespace udo
#endif
