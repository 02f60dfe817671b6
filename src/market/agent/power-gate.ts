import { execFile } from 'node:child_process'

export interface PowerOptions {
  /** A command for the shell. Requests are paused while it exits with a code other than 0. */
  readonly pauseCommand: string | null
  /** Requests are paused while all GPUs together draw more than this. Read with nvidia-smi. */
  readonly powerLimitWatts: number | null
}

const TIMEOUT_MS = 5_000

/** Returns why requests must be paused; null if they need not. Never rejects. */
export async function powerObstacle({ pauseCommand, powerLimitWatts }: PowerOptions): Promise<string | null> {
  if (pauseCommand !== null) {
    const [shell, flag] = process.platform === 'win32' ? (['cmd', '/c'] as const) : (['/bin/sh', '-c'] as const)
    const { code } = await run(shell, [flag, pauseCommand])
    if (code !== 0) return 'the pause command asks for it'
  }
  if (powerLimitWatts === null) return null
  const watts = await gpuWatts()
  if (watts === null) return 'the power of the GPU cannot be read with nvidia-smi'
  return watts > powerLimitWatts ? `the GPUs draw ${Math.round(watts)} W` : null
}

/** The power of all GPUs together; null where nvidia-smi is missing or fails. */
export async function gpuWatts(): Promise<number | null> {
  const { code, output } = await run('nvidia-smi', ['--query-gpu=power.draw', '--format=csv,noheader,nounits'])
  const watts = output.trim().split('\n').map(Number)
  return code === 0 && watts.every(value => Number.isFinite(value))
    ? watts.reduce((sum, value) => sum + value, 0)
    : null
}

function run(program: string, args: readonly string[]): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise(resolve => {
    execFile(program, [...args], { timeout: TIMEOUT_MS, windowsHide: true }, (error, output) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : 1
      resolve({ code, output: String(output) })
    })
  })
}
