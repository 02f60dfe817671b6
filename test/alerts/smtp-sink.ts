import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { createInterface } from 'node:readline'

/** A mail server that accepts all mails or none. */
export interface SmtpSink {
  readonly port: number
  readonly mails: readonly { readonly from: string; readonly to: string; readonly source: string }[]
  refuse: boolean
  /** The addresses that were refused. */
  readonly refused: readonly string[]
  close(): Promise<void>
}

export async function startSmtpSink(): Promise<SmtpSink> {
  const mails: { from: string; to: string; source: string }[] = []
  const refused: string[] = []
  const sockets = new Set<Socket>()
  const server = createServer(async socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    const say = (line: string) => socket.write(`${line}\r\n`)
    say('220 sink')
    let [from, to] = ['', '']
    let source: string[] | null = null
    for await (const line of createInterface({ input: socket, crlfDelay: Number.POSITIVE_INFINITY })) {
      if (source !== null) {
        if (line !== '.') source.push(line)
        else {
          mails.push({ from, to, source: source.join('\n') })
          source = null
          say('250 taken')
        }
        continue
      }
      const [, address = ''] = /<(.*)>/.exec(line) ?? []
      if (/^(EHLO|HELO)/i.test(line)) say('250 sink')
      else if (/^MAIL/i.test(line)) {
        from = address
        say('250 ok')
      } else if (/^RCPT/i.test(line)) {
        to = address
        if (sink.refuse) refused.push(to)
        say(sink.refuse ? '550 10.1.2.3 says no' : '250 ok')
      } else if (/^DATA/i.test(line)) {
        source = []
        say('354 go on')
      } else if (/^QUIT/i.test(line)) {
        socket.end('221 bye\r\n')
      } else say('250 ok')
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sink: SmtpSink = {
    port: (server.address() as AddressInfo).port,
    mails,
    refuse: false,
    refused,
    async close() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
  return sink
}
