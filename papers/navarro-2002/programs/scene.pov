// In place of the simple image of Navarro et al. 2002, section 6.2, which the paper does not give: a field of spheres.
#version 3.7;
global_settings { assumed_gamma 1.0 }
camera { location <0, 6, -14> look_at <0, 1, 0> angle 45 }
light_source { <-10, 20, -15> color rgb 1 }
light_source { <15, 10, -10> color rgb 0.4 }
plane { y, 0 pigment { checker color rgb 0.9 color rgb 0.3 scale 2 } finish { reflection 0.15 } }
#declare Chance = seed(3);
#declare I = 0;
#while (I < 400)
    sphere {
        <rand(Chance) * 16 - 8, rand(Chance) * 4, rand(Chance) * 16 - 4>, 0.1 + rand(Chance) * 0.4
        pigment { color rgb <rand(Chance), rand(Chance), rand(Chance)> }
        finish { phong 0.8 reflection 0.2 }
    }
    #declare I = I + 1;
#end
box {
    <-1.5, 0, -1.5>, <1.5, 3, 1.5>
    pigment { marble turbulence 0.7 color_map { [0 color rgb <0.2, 0.3, 0.6>] [1 color rgb 1] } }
    normal { bumps 0.4 scale 0.2 }
}
