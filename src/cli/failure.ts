/** Thrown when a command fails. The message is a sentence for the operator; the exit code is 1. */
export class Failure extends Error {
  override name = 'Failure'
}

/** Thrown by the action of a command when its arguments are invalid. The exit code is 2. */
export class UsageError extends Error {
  override name = 'UsageError'
}
