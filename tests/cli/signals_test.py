#!/usr/bin/env python3
"""Ctrl-C: ends within one step, exit code 130, no partial file; the second one kills."""
import os
import signal
import subprocess
import time
import unittest

from program import CANCELLED, DEMO, PROGRAM, ProgramTest, listing

LONG = ["--model", str(DEMO), "--width", "256", "--height", "256", "--steps", "500", "--cpu-reference", "--prompt", "a red circle"]


class Interrupts(ProgramTest):
    def start(self, *arguments):
        """Starts a long drawing and waits until its first step is done."""
        process = subprocess.Popen([PROGRAM, "generate", *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        step_seconds, began = 0.0, None
        for line in process.stderr:
            if line.startswith(b"encode"):
                began = time.monotonic()
            if line.startswith(b"denoise 1/"):
                step_seconds = time.monotonic() - (began or time.monotonic())
                break
        self.assertIsNone(process.poll(), "ended before the signal")
        return process, step_seconds

    def test_one_interrupt_ends_within_a_step_without_a_file(self):
        process, step_seconds = self.start(*LONG, "--output", "x.png", "--dump", "d.safetensors")
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60 + 5 * step_seconds)
        waited = time.monotonic() - sent
        self.assertEqual(process.returncode, CANCELLED, err)
        self.assertLessEqual(waited, 1 + 2 * step_seconds, "later than within one step")
        self.assertEqual(out, b"")
        self.assertIn(b"octavo: ", err)
        self.assertEqual(listing(self.folder), [])

    def test_terminate_is_as_tidy(self):
        process, _ = self.start(*LONG, "--output", "x.png")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertEqual(listing(self.folder), [])

    def test_finished_pictures_of_a_batch_stay(self):
        arguments = ["--model", str(DEMO), "--width", "64", "--height", "64", "--steps", "3", "--prompt", "a red circle", "--batch", "100000", "--output", "b.png", "--cpu-reference"]
        # A batch this long would try 100,000 paths first; 2,000 are enough to be interrupted.
        arguments[arguments.index("100000")] = "2000"
        process = subprocess.Popen([PROGRAM, "generate", *arguments], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, CANCELLED)
        named = sorted(os.path.join(self.folder, path) for path in (first + rest).decode().split())
        self.assertEqual(listing(self.folder), named, "exactly the pictures that were announced")

    def test_the_second_interrupt_kills(self):
        process, _ = self.start(*LONG, "--output", "x.png")
        process.send_signal(signal.SIGSTOP)  # both signals are pending before the program can react to the first
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertIn(process.returncode, (-signal.SIGINT, CANCELLED))  # CANCELLED: it was faster than the second signal
        self.assertEqual(listing(self.folder), [])


if __name__ == "__main__":
    unittest.main()
