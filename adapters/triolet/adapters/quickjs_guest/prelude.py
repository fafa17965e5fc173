"""The bridge: what is put into a fresh JavaScript realm before a program gets there.

Decides what a program finds: the namespaces, a `console` that writes into a bounded buffer, and `ToolError`. What it
uses it has kept from before the program ran, so that a program which changes prototypes or globals changes its own
view and no more. Whatever a program does to the bridge gains it nothing: the other side counts, bounds and
checks every message itself (SEC-014).
"""

from typing import Final

PRELUDE: Final = r"""
(function (manifest, logBytes) {
  "use strict";
  const { apply, ownKeys, getOwnPropertyDescriptor } = Reflect;
  const { stringify, parse } = JSON;
  const { create, freeze, defineProperty } = Object;
  const { isArray } = Array;
  const NativePromise = Promise, NativeError = Error, NativeString = String;
  const charCodeAt = String.prototype.charCodeAt;
  const Bytes = Uint8Array;

  // Logs stand at a fixed place of the guest's memory, so that they outlive whatever stops the program.
  const log = new Bytes(logBytes + 8);
  let used = 0;
  let dropped = 0;
  function note() {
    for (let i = 0, n = used; i < 4; i++, n = n >>> 8) log[i] = n & 255;
    for (let i = 4, n = dropped; i < 8; i++, n = n >>> 8) log[i] = n & 255;
  }
  function write(text) {
    const length = text.length;
    for (let i = 0; i < length; i++) {
      let c = apply(charCodeAt, text, [i]);
      if (c >= 0xd800 && c < 0xdc00 && i + 1 < length) {
        const low = apply(charCodeAt, text, [i + 1]);
        if (low >= 0xdc00 && low < 0xe000) { c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00); i++; }
      }
      if ((c >= 0xd800 && c < 0xe000) || c === 0) c = 0xfffd;
      const size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
      if (used + size > logBytes) { dropped = (dropped + length - i) >>> 0; note(); return; }
      if (size === 1) log[8 + used++] = c;
      else {
        log[8 + used++] = (size === 2 ? 0xc0 : size === 3 ? 0xe0 : 0xf0) | (c >> (6 * (size - 1)));
        for (let k = size - 2; k >= 0; k--) log[8 + used++] = 0x80 | ((c >> (6 * k)) & 63);
      }
    }
    note();
  }
  function shown(value) {
    if (typeof value === "string") return value;
    if (value instanceof NativeError) return described(value);
    try {
      const text = stringify(value);
      if (typeof text === "string") return text;
    } catch (_) { /* shown in another way */ }
    try { return NativeString(value); } catch (_) { return "[a value that cannot be shown]"; }
  }
  function described(value) {
    try {
      if (typeof value === "object" && value !== null && "message" in value) {
        return NativeString(value.name || "Error") + ": " + NativeString(value.message);
      }
      return typeof value === "string" ? value : shown(value);
    } catch (_) { return "[a thrown value that cannot be shown]"; }
  }
  function say() {
    for (let i = 0; i < arguments.length; i++) { if (i) write(" "); write(shown(arguments[i])); }
    write("\n");
  }

  class ToolError extends NativeError {
    constructor(envelope) {
      super(envelope.message);
      this.name = "ToolError";
      this.tag = envelope.tag;
      this.envelope = envelope;
    }
  }

  // A queue as a linked list: an array would look into its prototype.
  let first = null, last = null;
  const waiting = create(null);
  let next = 0;
  function call(tool, argument) {
    return new NativePromise((resolve, reject) => {
      let text = stringify(argument === undefined ? {} : argument);
      if (typeof text !== "string") throw new TypeError("the argument of a tool is a JSON object");
      const id = next++;
      waiting[id] = { __proto__: null, resolve, reject };
      const entry = { __proto__: null, id, tool, text, after: null };
      if (last === null) first = entry; else last.after = entry;
      last = entry;
    });
  }

  let tool = 0;
  for (const namespace of ownKeys(manifest)) {
    const tools = create(null);
    const names = manifest[namespace];
    for (let i = 0; i < names.length; i++) {
      const index = tool++;
      defineProperty(tools, names[i], { value: freeze((argument) => call(index, argument)), enumerable: true });
    }
    defineProperty(globalThis, namespace, { value: freeze(tools), enumerable: true });
  }
  const output = create(null);
  for (const level of ["log", "info", "warn", "error", "debug"]) output[level] = freeze(say.bind(null));
  defineProperty(globalThis, "console", { value: freeze(output) });
  defineProperty(globalThis, "ToolError", { value: ToolError });
  // What blocks, and what tells the time.
  delete globalThis.Atomics;
  delete globalThis.performance;
  delete globalThis.SharedArrayBuffer;
  note();

  return {
    __proto__: null,
    log,
    take() {
      if (first === null) return "";
      const entry = first;
      first = entry.after;
      if (first === null) last = null;
      return entry.id + " " + entry.tool + " " + entry.text;
    },
    settle(id, good, text) {
      const entry = waiting[id];
      delete waiting[id];
      if (good) entry.resolve(parse(text)); else entry.reject(new ToolError(parse(text)));
    },
    finish(value) {
      if (value === undefined) return "null";
      const text = stringify(value);
      return typeof text === "string" ? text : "";
    },
    describe(value) { return described(value); },
  };
})
"""
