import { readFileSync, statSync } from 'node:fs'
import { InvalidArgumentError } from 'commander'
import { systemErrorText } from '../../base/runtime/error-message.ts'
import { type Hours, readHours } from '../../market/agent/schedule.ts'
import { hostKeyOfEnvironment } from '../../start/config/config.ts'
import { SLOTS_MAX } from '../../wire/api/agent-protocol.ts'
import { UsageError } from '../failure.ts'

/** Collects repeated `--hours 22:00-07:00`. */
export function hoursArgument(text: string, before: readonly Hours[] = []): Hours[] {
  const hours = readHours(text)
  if (hours === undefined) throw new InvalidArgumentError('It must be two times of the day, such as 22:00-07:00.')
  return [...before, hours]
}

/** Collects repeated `--gateway`. Returns origins. */
export function gatewayArgument(text: string, before: readonly string[] = []): string[] {
  const url = httpUrl(text)
  if (url.pathname !== '/' || url.search !== '') throw new InvalidArgumentError('It must be an address without a path.')
  return [...before, url.origin]
}

/** The base URL of a model server, without a slash at the end. */
export function upstreamArgument(text: string): string {
  const url = httpUrl(text)
  if (url.search !== '' || url.hash !== '') throw new InvalidArgumentError('It must have no query.')
  return url.href.replace(/(?<!\/)\/+$/, '')
}

function httpUrl(text: string): URL {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new InvalidArgumentError('It must be an http or https URL.')
  if (url.username !== '' || url.password !== '') throw new InvalidArgumentError('It must hold no password.')
  return url
}

export const slotsArgument = (text: string) => wholeNumber(text, SLOTS_MAX)
export const tokensPerMinuteArgument = (text: string) => wholeNumber(text, 1_000_000_000)
export const wattsArgument = (text: string) => wholeNumber(text, 1_000_000)

function wholeNumber(text: string, max: number): number {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : 0
  if (value < 1 || value > max) throw new InvalidArgumentError(`It must be a whole number from 1 to ${max}.`)
  return value
}

/** Whether an http URL leads to this machine only, so that nobody else can read what is sent. */
export function isLoopback(origin: string): boolean {
  const { hostname } = new URL(origin)
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(hostname)
}

/** Group and others. */
const OTHERS = 0o077

/** Returns the key of the hoster: from a file that only its owner can read, an argument or the environment. */
export function readHostKey({ key, keyFile }: { key?: string | undefined; keyFile?: string | undefined }): string {
  const found = keyFile === undefined ? (key ?? hostKeyOfEnvironment()) : readSecretFile('--key-file', keyFile)
  if (found === undefined)
    throw new UsageError('Pass the key of the hoster with --key-file, or in SWITCHYARD_HOST_KEY.')
  if (!/^hk-sy-[0-9A-Za-z]{38}$/.test(found)) {
    throw new UsageError('This is not the key of a hoster. It begins with hk-sy- and has 44 characters.')
  }
  return found
}

/** Reads a secret. `option` names the file in errors. */
export function readSecretFile(option: string, file: string): string {
  try {
    if (process.platform !== 'win32' && (statSync(file).mode & OTHERS) !== 0) {
      throw new UsageError(`Others can read ${file}. Run: chmod 600 ${file}`)
    }
    return readFileSync(file, 'utf8').trim()
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(`Cannot read ${option} ${file}: ${systemErrorText(error)}.`)
  }
}
