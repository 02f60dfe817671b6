import { type DestinationStream, type Logger, pino } from 'pino'
import { readableLogLine } from './readable-log-line.ts'
import { createRepeatedErrors } from './repeated-errors.ts'
import { type Clock, systemClock } from './scheduler.ts'

export interface LogSettings {
  readonly level: string
  /** `auto` is `text` if stderr is a terminal, else `json`. */
  readonly format: 'auto' | 'json' | 'text'
}

/**
 * Creates the log on stderr, while the CLI prints results on stdout. Never log bodies, headers or keys.
 *
 * @param isOutage see createRepeatedErrors
 * @param destination receives JSON lines, whatever the format; only for tests
 */
export function createLog(
  { level, format }: LogSettings,
  isOutage: (error: Error) => boolean,
  destination?: DestinationStream,
  clock: Pick<Clock, 'monotonicMs'> = systemClock,
): Logger {
  const withoutRepeated = createRepeatedErrors(clock, isOutage)
  const isText = format === 'auto' ? process.stderr.isTTY === true : format === 'text'
  return pino(
    {
      level,
      // Leave out pid and host: the service manager adds them.
      base: null,
      serializers: { err: error => errorFields(error) },
      // The fields of a library may have errors under any name, and JSON makes {} of an error.
      formatters: { log: fields => readableErrors(fields, NESTED_MAX) as Record<string, unknown> },
      hooks: {
        logMethod(args, method) {
          const [fields, message, ...values] = args as unknown[]
          if (typeof fields !== 'object' || fields === null || typeof message !== 'string') {
            method.apply(this, args)
            return
          }
          const kept = withoutRepeated(fields as Record<string, unknown>, message)
          if (kept !== undefined) method.apply(this, [kept, message, ...values] as unknown as Parameters<typeof method>)
        },
      },
    },
    destination ?? (isText ? readable(standardError(), level) : standardError()),
  )
}

/** Formats the lines for people before they are written. */
function readable(stream: DestinationStream, level: string): DestinationStream {
  const options = {
    coloured: process.stderr.isTTY === true && process.stderr.hasColors(),
    withStacks: level === 'debug' || level === 'trace',
  }
  return { write: line => stream.write(readableLogLine(line, options)) }
}

/** Lines that cannot be written wait in a buffer of this size; further lines are dropped. */
const WAITING_BYTES_MAX = 1024 * 1024

/**
 * Opens standard error, which may be a file on a full disk. The gateway must then keep serving. At exit, pino
 * would try to flush the rest in an endless loop, so flushing is skipped while writes fail.
 */
function standardError(): DestinationStream {
  const stream = pino.destination({ dest: 2, sync: false, maxLength: WAITING_BYTES_MAX })
  let isFailing = false
  stream.on('error', () => {
    isFailing = true
  })
  stream.on('write', () => {
    isFailing = false
  })
  const flush = stream.flushSync.bind(stream)
  stream.flushSync = () => {
    if (!isFailing) flush()
  }
  return stream
}

/** Picks the fields that explain an error: drivers attach whole connections to theirs, passwords included. */
function errorFields(error: unknown, depth = CAUSES_MAX): object {
  if (!(error instanceof Error)) return typeof error === 'object' && error !== null ? error : { message: String(error) }
  const { name, message, stack, cause } = error
  const code = 'code' in error ? error.code : undefined
  return {
    name,
    message,
    ...(code !== undefined && { code }),
    stack,
    ...(cause !== undefined && depth > 0 && { cause: errorFields(cause, depth - 1) }),
    // A connection that fails at each address of a name has no other message.
    ...(error instanceof AggregateError &&
      depth > 0 && { errors: error.errors.map(each => errorFields(each, depth - 1)) }),
  }
}

/** How many causes of an error are shown. An error may be the cause of its own cause. */
const CAUSES_MAX = 5

/** How deep errors are looked for in the fields of a line. */
const NESTED_MAX = 3

/** Returns the value with `errorFields` in the place of each error in it. */
function readableErrors(value: unknown, depth: number): unknown {
  if (value instanceof Error) return errorFields(value)
  if (depth === 0 || typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(each => readableErrors(each, depth - 1))
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, readableErrors(each, depth - 1)]))
}
