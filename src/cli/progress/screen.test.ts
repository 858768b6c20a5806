import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Screen } from "./screen.ts";

class FakeTerminal {
  readonly isTTY: boolean;
  readonly columns = 24;
  written: string[] = [];
  constructor(isTTY: boolean) {
    this.isTTY = isTTY;
  }
  write(text: string): void {
    this.written.push(text);
  }
  take(): string {
    return this.written.splice(0).join("").replaceAll("\x1b[1A\x1b[2K", "<up>");
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubEnv("NO_COLOR", "1");
  vi.stubEnv("TERM", "xterm");
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllEnvs();
});

test("live lines are redrawn in place, at most ten times a second, and cut to the width", () => {
  const terminal = new FakeTerminal(true);
  const screen = new Screen(terminal);
  let n = 0;
  screen.live(() => [[`drawn ${++n}`], ["a line that is far too long for this"]]);
  expect(terminal.take()).toBe("drawn 1\na line that is far too…\n");
  vi.advanceTimersByTime(1_000);
  expect(n).toBe(11);
  expect(terminal.take()).toContain("<up><up>drawn 11\n");
  screen.still();
  expect(terminal.take()).toBe("<up><up>");
  vi.advanceTimersByTime(1_000);
  expect(terminal.take()).toBe("");
});

test("a line that stays is written above the live ones", () => {
  const terminal = new FakeTerminal(true);
  const screen = new Screen(terminal);
  screen.live(() => [["live"]]);
  terminal.take();
  screen.print("stays, however long that line may be");
  expect(terminal.take()).toBe("<up>stays, however long that line may be\nlive\n");
  screen.write("no end");
  expect(terminal.take()).toBe("<up>no end\nlive\n");
  screen.still();
});

test("colours are used on a terminal unless NO_COLOR is set, and never elsewhere", () => {
  const say = (terminal: FakeTerminal): string => {
    new Screen(terminal).print(["red", "red"], " plain");
    return terminal.take();
  };
  expect(say(new FakeTerminal(true))).toBe("red plain\n");
  vi.stubEnv("NO_COLOR", "");
  expect(say(new FakeTerminal(true))).toBe("\x1b[31mred\x1b[0m plain\n");
  expect(say(new FakeTerminal(false))).toBe("red plain\n");
});

test("what is no terminal, or a dumb one, gets no live lines", () => {
  vi.stubEnv("TERM", "dumb");
  for (const isTTY of [true, false]) {
    const terminal = new FakeTerminal(isTTY);
    const screen = new Screen(terminal);
    screen.live(() => [["live"]]);
    vi.advanceTimersByTime(1_000);
    screen.still();
    expect(terminal.take()).toBe("");
  }
});
