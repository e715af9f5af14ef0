"""The sections of the configuration as declarations only; `holdfast.config.schema` puts them together."""
