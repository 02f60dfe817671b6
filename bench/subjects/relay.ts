import { join } from 'node:path'
import { startServer } from '../process.ts'
import type { Subject, SubjectOptions } from './subject.ts'

/** A bare relay on node:http and undici: see relay.ts. */
export async function startRelay({ upstreamOrigin, cores, dir }: SubjectOptions): Promise<Subject> {
  const server = await startServer('relay.ts', [upstreamOrigin], {
    core: cores?.subject,
    logFile: join(dir, 'relay.log'),
    env: { NODE_ENV: 'production' },
  })
  return { url: `${server.origin}/v1/chat/completions`, headers: {}, pid: server.pid, stop: server.stop }
}
