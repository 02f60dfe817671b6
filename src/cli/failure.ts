/** A command could not do its work. The message is a sentence for the operator. The exit code is 1. */
export class Failure extends Error {
  override name = 'Failure'
}

/** The arguments of a command cannot work. The exit code is 2. */
export class UsageError extends Error {
  override name = 'UsageError'
}
