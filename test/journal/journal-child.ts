import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** Another process that uses the journal's modules. */
export interface JournalChild {
  /** The next line it prints; undefined once it has ended. */
  nextLine(): Promise<string | undefined>
  /** Ends it as a power switch would. */
  kill(): Promise<void>
  /** Resolves when it has ended by itself. */
  exited(): Promise<void>
}

const running = new Set<ChildProcess>()

/**
 * Runs `code`, a module with `claimDirectory`, `openJournal`, `append`, `createFileDisk` and `systemScheduler` in scope, and `root`.
 * `fileBytesMax` is the size no file of it may grow beyond: a disk that fills up, without one.
 */
export function startJournalChild(code: string, root: string, fileBytesMax?: number): JournalChild {
  const limit = fileBytesMax === undefined ? '' : `ulimit -f ${fileBytesMax / 512}; `
  const node = [
    process.execPath,
    '--input-type=module',
    '--eval',
    `${imports}const root = process.argv[1]\n${code}`,
    root,
  ]
  const child = spawn('sh', ['-c', `${limit}exec "$@"`, 'sh', ...node], { stdio: ['ignore', 'pipe', 'inherit'] })
  running.add(child)
  const exit = once(child, 'exit').then(() => void running.delete(child))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    nextLine: async () => (await lines.next()).value,
    async kill() {
      child.kill('SIGKILL')
      await exit
    },
    exited: () => exit,
  }
}

/** Ends those that a failed test left. */
export function killJournalChildren(): void {
  for (const child of running) child.kill('SIGKILL')
}

const moduleOf = (path: string) => JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href)
const imports = `
import { claimDirectory } from ${moduleOf('ledger/journal/claim-directory.ts')}
import { openJournal } from ${moduleOf('ledger/journal/journal.ts')}
import { createFileDisk } from ${moduleOf('ledger/journal/file-disk.ts')}
import { append } from ${JSON.stringify(new URL('./append.ts', import.meta.url).href)}
import { systemScheduler } from ${moduleOf('runtime/scheduler.ts')}
`
