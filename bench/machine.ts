import { execFileSync } from 'node:child_process'
import { cpus, loadavg, release, totalmem, type } from 'node:os'
import { isAutogroupOn } from './autogroup.ts'
import type { Cores } from './process.ts'

/** The facts without which a figure means nothing. */
export type Machine = {
  startedAt: string
  commit: string
  cpu: string
  cores: number
  memoryGb: number
  system: string
  node: string
  /** Runnable processes over the last minute, before the benchmark began: above about 0.5 somebody else was at work. */
  loadBefore: number
  pinned: Cores
  /** See autogroup.ts: while it is on, PostgreSQL is in the way of what it shares a core with. */
  autogroup: boolean
}

export function readMachine(pinned: Cores): Machine {
  return {
    startedAt: new Date().toISOString(),
    commit: readCommit(),
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 1e9),
    system: `${type()} ${release()}`,
    node: process.version,
    loadBefore: loadavg()[0]!,
    pinned,
    autogroup: isAutogroupOn(),
  }
}

/** The facts as lines of a report. */
export function describeMachine(machine: Machine): string[] {
  const { pinned } = machine
  return [
    `- machine: ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGb} GB, ${machine.system}, Node ${machine.node}`,
    `- load average before the start: ${machine.loadBefore.toFixed(2)}`,
    pinned === null
      ? '- nothing was pinned (no `taskset`, or one core)'
      : `- pinned: the gateway under test to core ${pinned.subject}; upstream ${pinned.upstream}, load ${pinned.load}, PostgreSQL ${pinned.database}`,
    ...(machine.autogroup
      ? ['- autogroup is on: PostgreSQL delays what it shares a core with (see bench/README.md)']
      : []),
  ]
}

function readCommit(): string {
  const git = (...args: string[]) =>
    execFileSync('git', args, {
      cwd: import.meta.dirname,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  try {
    const changed = git('status', '--porcelain', '--untracked-files=no') === '' ? '' : ' with uncommitted changes'
    return git('rev-parse', '--short=12', 'HEAD') + changed
  } catch {
    return 'not a git checkout'
  }
}
