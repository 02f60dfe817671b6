/** A directory or a bucket that gets files. */
export interface FilePlace {
  /**
   * Writes a file in the place of an earlier one of this name. It gets the name when it is complete. Throws an Error for the
   * operator, and the errors of `bytes`.
   */
  write(name: string, bytes: AsyncIterable<Uint8Array>): Promise<void>
}
