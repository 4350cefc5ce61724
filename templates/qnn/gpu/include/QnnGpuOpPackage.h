// Auto-generated part of every op package with kernels in Qualcomm's style; regenerating rewrites this file.
#pragma once

#include "GPU/QnnGpuOpPackage.h"
