/** Where a journal keeps its files: one flat directory. Writing is synchronous, since nothing may happen between a record and its write. */
export interface Disk {
  /** The names of all files, in no order. */
  list(): string[]
  read(name: string): Buffer
  /** Adds bytes at the end, creating the file. Throws the operating system's error; part of the bytes may then be there. */
  append(name: string, bytes: Buffer): void
  /** Resolves when what was appended survives a loss of power. */
  sync(name: string): Promise<void>
  truncate(name: string, length: number): void
  /** `done` is called once, at once or later; with an error when the file is still there. The name is not used again. */
  remove(name: string, done: (error: Error | null) => void): void
}
