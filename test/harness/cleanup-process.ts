// Cleans up after a run that ended in any way, also by SIGKILL: this process outlives the run, kills its processes and removes its files. The
// run writes lines to its standard input: `+<pid>` for a started process, `-<pid>` for an ended one, `data <directory>` for a directory with a
// PostgreSQL, `run <directory>` for the TMPDIR of all its processes, `files <directory>` for another one. The input ends when the run ends.
import { globSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'

const pids = new Set<number>()
const directories = new Map<string, string>()

// Ctrl-C reaches the whole process group.
process.on('SIGINT', () => {})
for await (const line of createInterface({ input: process.stdin })) {
  const [word = '', directory = ''] = line.split(' ')
  if (word.startsWith('+')) pids.add(Number(word.slice(1)))
  else if (word.startsWith('-')) pids.delete(Number(word.slice(1)))
  else directories.set(directory, word)
}
for (const pid of pids) kill(pid, 'SIGKILL')
for (const [directory, holds] of directories) {
  if (holds === 'run') for (const pid of processesOf(directory)) kill(pid, 'SIGKILL')
  if (holds === 'files') continue
  const clusters = globSync(holds === 'run' ? '**/postmaster.pid' : 'postgres/postmaster.pid', { cwd: directory })
  await Promise.all(clusters.map(path => stopPostgres(join(directory, path))))
}
for (const directory of directories.keys()) rmSync(directory, { recursive: true, force: true, maxRetries: 5 })

/** The processes with this TMPDIR. Linux only: elsewhere those that outlive their parent stay. */
function processesOf(tmpDir: string): number[] {
  const ids = readdirSync('/proc').map(Number).filter(Boolean)
  return ids.filter(id => id !== process.pid && read(`/proc/${id}/environ`)?.split('\0').includes(`TMPDIR=${tmpDir}`))
}

async function stopPostgres(pidFile: string): Promise<void> {
  const pid = Number(read(pidFile)?.split('\n')[0])
  // SIGQUIT is PostgreSQL's immediate shutdown; the data is deleted afterwards anyway.
  for (let wait = 0; wait < 200 && pid > 0 && kill(pid, wait === 0 ? 'SIGQUIT' : 0); wait++) await delay(50)
}

function read(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
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
