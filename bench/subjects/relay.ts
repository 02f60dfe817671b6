import { join } from 'node:path'
import { startServer } from '../process.ts'
import type { Setting, Subject } from './subject.ts'

/** The floor: a bare node:http + undici relay, see relay.ts. */
export async function startRelay({ upstreamOrigin, cores, dir }: Setting): Promise<Subject> {
  const server = await startServer('relay.ts', [upstreamOrigin], {
    core: cores?.subject,
    logFile: join(dir, 'relay.log'),
    env: { NODE_ENV: 'production' },
  })
  return { url: `${server.origin}/v1/chat/completions`, headers: {}, pid: server.pid, stop: server.stop }
}
