import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isJsonObject } from '../base/runtime/json-object.ts'

// A server writes its address into the data directory, because commands cannot know a port that was given to the server
// on its command line or in its environment, or that the system chose.

export interface RunningServer {
  /** The address on which it listens. */
  readonly host: string
  readonly port: number
}

/** Writes the address of this process. Returns a function that removes it again. */
export function writeRunningServer(dataDir: string, { host, port }: RunningServer): () => void {
  const path = pathIn(dataDir)
  writeFileSync(path, `${JSON.stringify({ host, port, pid: process.pid })}\n`)
  return () => {
    // A later start may have replaced it.
    if (read(path)?.pid === process.pid) rmSync(path, { force: true })
  }
}

/** Returns the address of the server that runs on this data directory; undefined if none does. */
export function findRunningServer(dataDir: string): RunningServer | undefined {
  const written = read(pathIn(dataDir))
  return written && isAlive(written.pid) ? written : undefined
}

const pathIn = (dataDir: string) => join(dataDir, 'server.json')

function read(path: string): (RunningServer & { readonly pid: number }) | undefined {
  try {
    const written: unknown = JSON.parse(readFileSync(path, 'utf8'))
    if (!isJsonObject(written)) return undefined
    const { host, port, pid } = written
    return typeof host === 'string' && typeof port === 'number' && typeof pid === 'number'
      ? { host, port, pid }
      : undefined
  } catch {
    // Missing, unreadable for this user, or cut off by a crash: then the configured address is the best guess.
    return undefined
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
