import { readFileSync } from 'node:fs'
import { Option } from 'commander'
import { systemErrorText } from '../base/runtime/error-message.ts'
import type { HosterRef } from '../market/supply/hosters/hosters.ts'
import type { Session } from './command.ts'
import { UsageError } from './failure.ts'
import type { Json } from './output.ts'

/** Prints a change of a hoster. @param text follows its name */
export function showHosterChange(
  { output }: Session,
  { hosterId, name }: HosterRef,
  change: Record<string, Json>,
  text: string,
): void {
  output.result({ hoster_id: hosterId, name, ...change }, `${name} ${text}`)
}

/** The option for the key that is sent to a hoster. */
export function upstreamKeyOption(): Option {
  return new Option('--key <key>', "the hoster's API key; other users of this machine can see it").conflicts('keyFile')
}

/** Reads the key of `--key` or `--key-file`; undefined without one. */
export function readUpstreamKey({ key, keyFile }: { key?: string; keyFile?: string }): string | undefined {
  if (keyFile === undefined) return key
  try {
    return readFileSync(keyFile === '-' ? 0 : keyFile, 'utf8').trim()
  } catch (error) {
    throw new UsageError(`Cannot read --key-file ${keyFile}: ${systemErrorText(error)}.`)
  }
}
