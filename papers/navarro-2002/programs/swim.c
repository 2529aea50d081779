/* In place of swim of SPEC CPU2000: the shallow-water equations by finite differences, on fourteen arrays of 1335 x 1335
 * doubles in one block, in SPEC's three sweeps, each with its edges copied to the opposite ones. Usage: swim STEPS */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 1335, N = SIZE - 1 };

/* The first index is the slower one here, as the second is in Fortran. */
typedef double grid[SIZE][SIZE];
static struct {
    grid u, v, p, unew, vnew, pnew, uold, vold, pold, cu, cv, z, h, psi;
} f;

/* Row or column 0 is copied to N, or N to 0 where `back`; the other index is shifted by one in staggered grids. */
static void rows(grid g, int back, int shift)
{
    for (int i = 0; i < N; i++)
        g[back ? 0 : N][i + shift] = g[back ? N : 0][i + shift];
}

static void columns(grid g, int back, int shift)
{
    for (int j = 0; j < N; j++)
        g[j + shift][back ? 0 : N] = g[j + shift][back ? N : 0];
}

/* Grids of u are staggered along rows, of v across them, of p not. */
static void edges(grid u, grid v, grid p)
{
    columns(u, 1, 0);
    columns(v, 0, 1);
    columns(p, 0, 0);
    rows(u, 0, 1);
    rows(v, 1, 0);
    rows(p, 0, 0);
    u[N][0] = u[0][N];
    v[0][N] = v[N][0];
    p[N][N] = p[0][0];
}

static void fluxes(double dx)
{
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++) {
            f.cu[j][i + 1] = 0.5 * (f.p[j][i + 1] + f.p[j][i]) * f.u[j][i + 1];
            f.cv[j + 1][i] = 0.5 * (f.p[j + 1][i] + f.p[j][i]) * f.v[j + 1][i];
            f.z[j + 1][i + 1] = 4 / dx * (f.v[j + 1][i + 1] - f.v[j + 1][i] - f.u[j + 1][i + 1] + f.u[j][i + 1])
                / (f.p[j][i] + f.p[j][i + 1] + f.p[j + 1][i + 1] + f.p[j + 1][i]);
            f.h[j][i] = f.p[j][i] + 0.25 * (f.u[j][i + 1] * f.u[j][i + 1] + f.u[j][i] * f.u[j][i]
                + f.v[j + 1][i] * f.v[j + 1][i] + f.v[j][i] * f.v[j][i]);
        }
    edges(f.cu, f.cv, f.h);
    columns(f.z, 1, 1);
    rows(f.z, 1, 1);
    f.z[0][0] = f.z[N][N];
}

static void advance(double t, double dx)
{
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++) {
            f.unew[j][i + 1] = f.uold[j][i + 1] + t / 8 * (f.z[j + 1][i + 1] + f.z[j][i + 1])
                * (f.cv[j + 1][i + 1] + f.cv[j + 1][i] + f.cv[j][i] + f.cv[j][i + 1]) - t / dx * (f.h[j][i + 1] - f.h[j][i]);
            f.vnew[j + 1][i] = f.vold[j + 1][i] - t / 8 * (f.z[j + 1][i + 1] + f.z[j + 1][i])
                * (f.cu[j + 1][i + 1] + f.cu[j + 1][i] + f.cu[j][i] + f.cu[j][i + 1]) - t / dx * (f.h[j + 1][i] - f.h[j][i]);
            f.pnew[j][i] = f.pold[j][i] - t / dx * (f.cu[j][i + 1] - f.cu[j][i]) - t / dx * (f.cv[j + 1][i] - f.cv[j][i]);
        }
    edges(f.unew, f.vnew, f.pnew);
}

static void smooth(double alpha)
{
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++) {
            f.uold[j][i] = f.u[j][i] + alpha * (f.unew[j][i] - 2 * f.u[j][i] + f.uold[j][i]);
            f.vold[j][i] = f.v[j][i] + alpha * (f.vnew[j][i] - 2 * f.v[j][i] + f.vold[j][i]);
            f.pold[j][i] = f.p[j][i] + alpha * (f.pnew[j][i] - 2 * f.p[j][i] + f.pold[j][i]);
            f.u[j][i] = f.unew[j][i];
            f.v[j][i] = f.vnew[j][i];
            f.p[j][i] = f.pnew[j][i];
        }
    grid *all[6] = { &f.uold, &f.vold, &f.pold, &f.u, &f.v, &f.p };
    for (int k = 0; k < 6; k++) {
        columns(*all[k], 0, 0);
        rows(*all[k], 0, 0);
        (*all[k])[N][N] = (*all[k])[0][0];
    }
}

int main(int count, char **words)
{
    int steps = count > 1 ? atoi(words[1]) : 2;
    double dx = 1e5, dt = 20, turn = 2 * M_PI / N;
    for (int j = 0; j < SIZE; j++)
        for (int i = 0; i < SIZE; i++) {
            f.psi[j][i] = 1e6 * sin((i + 0.5) * turn) * sin((j + 0.5) * turn);
            f.p[j][i] = M_PI * M_PI * 100 * (cos(2 * i * turn) + cos(2 * j * turn)) + 5e4;
        }
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++) {
            f.u[j][i + 1] = -(f.psi[j + 1][i + 1] - f.psi[j][i + 1]) / dx;
            f.v[j + 1][i] = (f.psi[j + 1][i + 1] - f.psi[j + 1][i]) / dx;
        }
    edges(f.u, f.v, f.p);
    for (int j = 0; j < SIZE; j++)
        for (int i = 0; i < SIZE; i++) {
            f.uold[j][i] = f.u[j][i];
            f.vold[j][i] = f.v[j][i];
            f.pold[j][i] = f.p[j][i];
        }
    for (int s = 0; s < steps; s++) {
        fluxes(dx);
        advance(s ? 2 * dt : dt, dx);
        smooth(0.001);
    }
    printf("%g\n", f.p[N / 2][N / 2]);
    return 0;
}
