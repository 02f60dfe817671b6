import { execFileSync } from 'node:child_process'
import { cpus, loadavg, release, totalmem, type } from 'node:os'
import { isAutogroupOn } from './autogroup.ts'
import { type Cores, pin, planCores } from './process.ts'

/** The conditions of a run, printed in every report. */
export type Machine = {
  startedAt: string
  commit: string
  cpu: string
  cores: number
  memoryGb: number
  system: string
  node: string
  /** Load average of the last minute before the start. Above about 0.5, other programs were running. */
  loadBefore: number
  pinned: Cores
  /** See autogroup.ts: while it is on, PostgreSQL delays the processes on its core. */
  autogroup: boolean
}

/** Plans the cores, pins this process to the core of the load, and reads the facts of the machine. */
export function prepareMachine(): { cores: Cores; machine: Machine } {
  const cores = planCores()
  if (cores !== null) pin(process.pid, cores.load)
  return { cores, machine: readMachine(cores) }
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

/** The title of a report and its first lines: the command, the commit, the machine, and `more`. */
export function reportHead(title: string, command: string, machine: Machine, more: string[]): string {
  const { cpu, cores, memoryGb, system, node } = machine
  return [
    `# ${title}, ${machine.startedAt.slice(0, 16).replace('T', ' ')} UTC\n`,
    `- command: \`${command}\`, commit ${machine.commit}`,
    `- machine: ${cpu}, ${cores} cores, ${memoryGb} GB, ${system}, Node ${node}`,
    `- load average before the start: ${machine.loadBefore.toFixed(2)}`,
    ...more,
  ].join('\n')
}

/** The report lines on pinned processes. */
export function describePinning({ pinned, autogroup }: Machine): string[] {
  return [
    pinned === null
      ? '- no process was pinned (no `taskset`, or only one core)'
      : `- cores: gateway under test ${pinned.subject}, upstream ${pinned.upstream}, load ${pinned.load}, PostgreSQL ${pinned.database}`,
    ...(autogroup ? ['- autogroup is on: PostgreSQL delays the processes on its core (see bench/README.md)'] : []),
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
