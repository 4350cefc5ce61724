#pragma once
#define QNN_SDK_BUILD_ID "v2.99.0.260101000000_1"
