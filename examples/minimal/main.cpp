// The smallest program that draws: minimal [OUTPUT.png [WIDTH HEIGHT STEPS]]
#include <octavo/engine.h>

#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  try {
    octavo::Engine engine({});  // the demo model that came with the library
    octavo::Request request;
    request.prompt = "three orange stars in a row on a blue background";
    if (argc > 4) {
      request.width = std::atoi(argv[2]);
      request.height = std::atoi(argv[3]);
      request.steps = std::atoi(argv[4]);
    }
    octavo::Callbacks callbacks;
    callbacks.progress = [](const octavo::Progress& p) { std::cerr << p.part << ' ' << p.step << '/' << p.steps << '\n'; };

    const char* path = argc > 1 ? argv[1] : "stars.png";
    octavo::save_png(engine.generate(request, callbacks).front(), path);
    std::cout << path << " drawn by octavo " << octavo::version() << '\n';
  } catch (const octavo::Error& error) {
    std::cerr << error.what() << '\n';
    return error.exit_code();
  }
}
