"""One YAML file, the environment and the command line -> frozen settings; nothing else in the agent reads them.

The file speaks camelCase with the unit kept (``sampling.intervalSeconds``); the environment the same words in capitals
(``PLIMSOLL_SAMPLING_INTERVAL_SECONDS``). The command line wins over the environment, that over the file.
"""

from agent.settings.keys import SettingDoc, describe_settings, settings_help
from agent.settings.sections import (
    ApiChoice,
    CgroupSettings,
    ColdFileChoice,
    KubernetesSettings,
    LogFormat,
    LoggingSettings,
    LogLevel,
    MemorySettings,
    MetricsSettings,
    RecommendSettings,
    SamplerChoice,
    SamplingSettings,
    ScopeChoice,
    ServingSettings,
    Settings,
    StateSettings,
    WindowSettings,
    default_socket,
    default_state_directory,
)
from agent.settings.sources import FILE_VARIABLE, SettingsError, load_settings

__all__ = [
    "FILE_VARIABLE",
    "ApiChoice",
    "CgroupSettings",
    "ColdFileChoice",
    "KubernetesSettings",
    "LogFormat",
    "LogLevel",
    "LoggingSettings",
    "MemorySettings",
    "MetricsSettings",
    "RecommendSettings",
    "SamplerChoice",
    "SamplingSettings",
    "ScopeChoice",
    "ServingSettings",
    "SettingDoc",
    "Settings",
    "SettingsError",
    "StateSettings",
    "WindowSettings",
    "default_socket",
    "default_state_directory",
    "describe_settings",
    "load_settings",
    "settings_help",
]
