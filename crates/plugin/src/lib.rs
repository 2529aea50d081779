//! The capture plugin that an emulator loads.
