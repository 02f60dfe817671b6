/** Thrown when a command fails. The message is a sentence for the operator; the exit code is 1. */
export class Failure extends Error {
  override name = 'Failure'
}

/** Thrown when another process is doing the same work. The exit code is 3: a schedule does not count it as a failure. */
export class Busy extends Failure {
  override name = 'Busy'
}

/** Thrown by the action of a command when its arguments are invalid. The exit code is 2. */
export class UsageError extends Error {
  override name = 'UsageError'
}
