import { styleText } from 'node:util'
import { usdText } from '../domain/money.ts'

/** What a command found or did, for programs: snake_case keys, money as decimal text, times as ISO 8601 in UTC. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json }

export interface Output {
  /** True when somebody reads along and can be asked. */
  readonly interactive: boolean
  /** The one result of a command, on stdout: the text for people, or the JSON when --json was given. */
  result(json: Json, text: string): void
  /** Anything else, on stderr. */
  note(message: string): void
}

/**
 * Resolves once the result is with whoever reads it, or cannot be written any more. A pipe takes 64 KiB at once and the rest as it is read, so
 * ending the process before that would cut off what is longer.
 */
export function resultWritten(): Promise<void> {
  return written
}

let written = Promise.resolve()

export function createOutput({ json }: { json: boolean }): Output {
  return {
    interactive: !json && process.stdin.isTTY === true && process.stderr.isTTY === true,
    result: (data, text) => {
      const line = json ? JSON.stringify(data) : text
      if (line === '') return
      const { promise, resolve } = Promise.withResolvers<void>()
      written = promise
      // An error is noted where the exit code is chosen.
      process.stdout.write(`${line}\n`, () => resolve())
    },
    note: message => process.stderr.write(`${message}\n`),
  }
}

/** Columns of aligned text under their names; numbers to the right. `none` stands for an empty table. */
export function table(columns: readonly string[], rows: readonly (readonly string[])[], none: string): string {
  if (rows.length === 0) return none
  const widths = columns.map((name, at) => Math.max(name.length, ...rows.map(row => row[at]!.length)))
  const isNumber = columns.map((_, at) => rows.every(row => /^(-?[\d.,]+%?|-)$/.test(row[at]!)))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, at) => (isNumber[at] ? cell.padStart(widths[at]!) : cell.padEnd(widths[at]!)))
      .join('  ')
      .trimEnd()
  return [styleText('bold', line(columns), { stream: process.stdout }), ...rows.map(line)].join('\n')
}

/** `2026-11-21 09:30`, in UTC. */
export function shownTime(time: Date | null): string {
  return time === null ? '-' : time.toISOString().slice(0, 16).replace('T', ' ')
}

/** USD per million tokens as decimal text: a picodollar per token is a microdollar per million. */
export function priceText(picoPerToken: bigint): string {
  return usdText(picoPerToken * 1_000n)
}
