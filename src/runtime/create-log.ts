import { type DestinationStream, type Logger, pino } from 'pino'

/** The log: JSON lines on stderr, beside the answers of the CLI on stdout. Never bodies, headers or keys. */
export function createLog(level: string, destination: DestinationStream = standardError()): Logger {
  return pino(
    {
      level,
      // Whoever runs the process knows its pid and host.
      base: null,
      serializers: { err: errorFacts },
    },
    destination,
  )
}

/** Of lines that cannot be written so many wait for better times; what comes then is dropped. */
const WAITING_BYTES_MAX = 1024 * 1024

/**
 * Standard error, which may be a file on a full disk. That is no reason to stop serving, and at its end a process would try to write the rest, again and
 * again, for ever: it neither served nor ended.
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

/** Of an error only what explains it: drivers hang whole connections, passwords included, onto theirs. */
function errorFacts(error: unknown): object {
  if (!(error instanceof Error)) return typeof error === 'object' && error !== null ? error : { message: String(error) }
  const { name, message, stack, cause } = error
  const code = 'code' in error ? error.code : undefined
  return {
    name,
    message,
    ...(code !== undefined && { code }),
    stack,
    ...(cause !== undefined && { cause: errorFacts(cause) }),
  }
}
