import { join } from 'node:path'
import { startServer } from '../process.ts'
import type { Subject, SubjectOptions } from './subject.ts'

/** The compared product: @portkey-ai/gateway as its package starts it, in production mode without its web console. */
export async function startPortkey({ upstreamOrigin, cores, dir }: SubjectOptions): Promise<Subject> {
  const server = await startServer('portkey-server.ts', ['--headless', '--port=0'], {
    core: cores?.subject,
    logFile: join(dir, 'portkey.log'),
    env: { NODE_ENV: 'production' },
  })
  return {
    url: `${server.origin}/v1/chat/completions`,
    headers: {
      authorization: 'Bearer bench',
      'x-portkey-provider': 'openai',
      'x-portkey-custom-host': `${upstreamOrigin}/v1`,
    },
    pid: server.pid,
    stop: server.stop,
  }
}
