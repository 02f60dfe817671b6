import { type DestinationStream, type Logger, pino } from 'pino'

/** The log: JSON lines on stderr, beside the answers of the CLI on stdout. Never bodies, headers or keys. */
export function createLog(
  level: string,
  destination: DestinationStream = pino.destination({ dest: 2, sync: false }),
): Logger {
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
