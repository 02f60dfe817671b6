// Cleans up after a chaos run that was killed: this process outlives the run, kills its processes and removes its files. The run writes
// lines to its standard input: `+<pid>` for a started process, `-<pid>` for an ended one, `data <directory>` for a directory with a
// PostgreSQL, `files <directory>` for another one. The input ends when the run ends.
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'

const pids = new Set<number>()
const directories = new Set<string>()
const clusters = new Set<string>()

// Ctrl-C reaches the whole process group.
process.on('SIGINT', () => {})
for await (const line of createInterface({ input: process.stdin })) {
  const [word = '', directory = ''] = line.split(' ')
  if (word.startsWith('+')) pids.add(Number(word.slice(1)))
  else if (word.startsWith('-')) pids.delete(Number(word.slice(1)))
  else {
    directories.add(directory)
    if (word === 'data') clusters.add(directory)
  }
}
for (const pid of pids) kill(pid, 'SIGKILL')
for (const directory of clusters) {
  const pid = postmasterOf(directory)
  if (pid === undefined) continue
  // SIGQUIT is PostgreSQL's immediate shutdown; the data is deleted afterwards anyway.
  kill(pid, 'SIGQUIT')
  for (let wait = 0; wait < 200 && kill(pid, 0); wait++) await delay(50)
}
for (const directory of directories) rmSync(directory, { recursive: true, force: true })

function postmasterOf(directory: string): number | undefined {
  try {
    return Number(readFileSync(join(directory, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0])
  } catch {
    return undefined
  }
}

/** Returns false when the process does not exist. */
function kill(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}
