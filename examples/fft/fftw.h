// FFTW's two libraries, one for each precision, under one set of names: Fftw<double> is fftw_*, Fftw<float>
// fftwf_*.
#pragma once

#include <fftw3.h>

template <typename Real>
struct Fftw;

template <>
struct Fftw<double> {
    using Plan = fftw_plan;
    using Complex = fftw_complex;
    static constexpr auto* allocate = fftw_malloc;
    static constexpr auto* free = fftw_free;
    static constexpr auto* plan_many = fftw_plan_many_dft;
    static constexpr auto* execute = fftw_execute_dft;
    static constexpr auto* destroy = fftw_destroy_plan;
};

template <>
struct Fftw<float> {
    using Plan = fftwf_plan;
    using Complex = fftwf_complex;
    static constexpr auto* allocate = fftwf_malloc;
    static constexpr auto* free = fftwf_free;
    static constexpr auto* plan_many = fftwf_plan_many_dft;
    static constexpr auto* execute = fftwf_execute_dft;
    static constexpr auto* destroy = fftwf_destroy_plan;
};
