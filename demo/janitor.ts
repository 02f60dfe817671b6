// Ends what a killed demo has left: the gateway, the agent and the temporary directory. The demo starts it as a process of its own, and
// names on its standard input what it started. The input ends with the demo, however that ends.
import { rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'

const directory = process.argv[2]!
const processes: number[] = []
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
for await (const line of createInterface({ input: process.stdin })) {
  // The demo ends by itself and cleans up.
  if (line === 'done') process.exit()
  processes.push(Number(line))
}

for (const pid of processes) end(pid, 'SIGTERM')
for (let waitedMs = 0; processes.some(isRunning) && waitedMs < 30_000; waitedMs += 200) await delay(200)
for (const pid of processes) end(pid, 'SIGKILL')
rmSync(directory, { recursive: true, force: true })

function end(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended.
  }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
