# Auto-generated part of every op package that udogen generates; regenerating rewrites this file.
APP_ABI := arm64-v8a
APP_STL := c++_shared
APP_PLATFORM := android-21
