import { usdText } from '../base/domain/money.ts'

/** The result of a command for programs: snake_case keys, money as decimal text, times as ISO 8601 in UTC. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json }

export interface Output {
  /** True if a person can answer questions: both stdin and stderr are terminals, and --json was not given. */
  readonly interactive: boolean
  /** Writes the only result of a command to stdout: the text, or the JSON if --json was given. */
  result(json: Json, text: string): void
  /** Writes anything else to stderr. */
  note(message: string): void
}

/**
 * Resolves once the result is written or can no longer be written. A pipe accepts 64 KiB immediately and the
 * rest as its reader catches up, so exiting earlier would truncate a longer result.
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
      // run() handles the error when it chooses the exit code.
      process.stdout.write(`${line}\n`, () => resolve())
    },
    note: message => process.stderr.write(`${message}\n`),
  }
}

/** Shown in place of the e-mail of a deleted customer. */
export const DELETED = '(deleted)'

/** Formats a time as `2026-11-21 09:30`, in UTC; `-` for null. */
export function timeText(time: Date | null): string {
  return time === null ? '-' : time.toISOString().slice(0, 16).replace('T', ' ')
}

/**
 * Formats picodollars per token as USD per million tokens: one picodollar per token is one microdollar per
 * million.
 */
export function priceText(picoPerToken: bigint): string {
  return usdText(picoPerToken * 1_000n)
}

/** Formats a size as `12.3 MB`, in powers of 1000. */
export function bytesText(bytes: number): string {
  const units = ['bytes', 'kB', 'MB', 'GB', 'TB']
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3))
  return `${power === 0 ? bytes : (bytes / 1000 ** power).toFixed(1)} ${units[power]}`
}
