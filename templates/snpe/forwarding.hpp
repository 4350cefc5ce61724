// Auto-generated part of every UDO package that udogen generates; regenerating rewrites this file.
// A name of the UDO documentation: here all support code is in one header.
#include "udogen.hpp"
