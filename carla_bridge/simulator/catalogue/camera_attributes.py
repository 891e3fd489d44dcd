"""Attributes of CARLA's cameras that have no effect here, with CARLA's defaults; many scripts set them."""

LENS = {
    "lens_circle_falloff": 5.0,
    "lens_circle_multiplier": 0.0,
    "lens_k": -1.0,
    "lens_kcube": 0.0,
    "lens_x_size": 0.08,
    "lens_y_size": 0.08,
}
"""Of every camera."""
PICTURE: dict[str, bool | int | float] = {
    "black_clip": 0.0,
    "blade_count": 5,
    "bloom_intensity": 0.675,
    "blur_amount": 1.0,
    "blur_radius": 0.0,
    "calibration_constant": 16.0,
    "chromatic_aberration_intensity": 0.0,
    "chromatic_aberration_offset": 0.0,
    "enable_postprocess_effects": True,
    "exposure_compensation": 0.0,
    "exposure_max_bright": 12.0,
    "exposure_min_bright": 10.0,
    "exposure_speed_down": 1.0,
    "exposure_speed_up": 3.0,
    "focal_distance": 1000.0,
    "fstop": 1.4,
    "gamma": 2.2,
    "iso": 100.0,
    "lens_flare_intensity": 0.1,
    "min_fstop": 1.2,
    "motion_blur_intensity": 0.45,
    "motion_blur_max_distortion": 0.35,
    "motion_blur_min_object_screen_size": 0.1,
    "shoulder": 0.26,
    "shutter_speed": 200.0,
    "slope": 0.88,
    "temp": 6500.0,
    "tint": 0.0,
    "toe": 0.55,
    "white_clip": 0.04,
}
"""Of the RGB camera."""
EXPOSURE_MODES = ("histogram", "manual")
"""Of the RGB camera; the first is the default."""
