import { describe, expect, it } from 'vitest'
import { safeMessage } from './safe-message.ts'

describe('safeMessage', () => {
  it.each([
    ['see https://internal.example/v1?key=abc for help', 'see [address] for help'],
    ['connect to 10.0.0.5:8000 failed', 'connect to [address] failed'],
    ['connect to gpu-7.cluster.local:8000 failed', 'connect to [address] failed'],
    ['dial tcp [::1]:11434: connect: refused', 'dial tcp [address]: connect: refused'],
    ['gpu-7.cluster.local and gpu-7.internal, no', '[address] and [address], no'],
    ['use threading.localhost, messages.0.local_id', 'use threading.localhost, messages.0.local_id'],
    ['Organization org-AbC123dEf456GhI789 of proj_a1b2c3d4e5f6g7h8', 'Organization [account] of [account]'],
    ['org-mode, project_id and org_name_of_something', 'org-mode, project_id and org_name_of_something'],
    ['write to billing+ops@acme.example or a@b', 'write to [address] or a@b'],
    ['connect fd00:12::5.', 'connect [address].'],
    ['at fe80::a%eth0, ::ffff:10.0.0.5: no', 'at [address]%eth0, [address]: no'],
    ['std::vector at messages[0].content: 1:2', 'std::vector at messages[0].content: 1:2'],
    ['Incorrect key provided: sk-proj-abc123def456', 'Incorrect key provided: [key]'],
    ['Authorization: Bearer abcdef', 'Authorization: [key]'],
    ['File "/opt/vllm/engine/core.py" line 3', 'File "[path]" line 3'],
    ['token 0123456789abcdef0123456789abcdef', 'token [removed]'],
    ['see https%3A%2F%2Finternal.example%2Fv1%3Fkey%3Dabc now', 'see [address] now'],
    ['see https%253A%252f%252Finternal.example%252Fv1 now', 'see [address] now'],
    ['see https:\\/\\/internal.example\\/v1 now', 'see [address] now'],
    ['no %2Fsrv%2Fmodels%2Fx.gguf', 'no [path]'],
    ['key %73k-proj-abc123def456', 'key [key]'],
    ['the key s k - p r o j - a b c 1 2 3 is wrong', 'the key [removed] is wrong'],
    ['the key s  k  -  p r o\nj - a b c is wrong', 'the key [removed] is wrong'],
    ['the key s.k.-.p.r.o.j.1.2.3', 'the key [removed]'],
    ['the key s-k-p-r-o-j-1-2-3, wrong', 'the key [removed], wrong'],
    ['s\u200bk\u200b-proj-abc123\u00addef456', '[key]'],
    ['100%25 sure, 50% off, a b c d and ------------------', '100% sure, 50% off, a b c d and ------------------'],
    ['a\u0000b\r\nc\u001b[31md', 'a b c [31md'],
    [
      "Unsupported parameter: 'max_tokens' is not supported with this model.",
      "Unsupported parameter: 'max_tokens' is not supported with this model.",
    ],
    [
      "Invalid value for 'messages[0].content': expected a string, got 3.",
      "Invalid value for 'messages[0].content': expected a string, got 3.",
    ],
    ['the key AKIAIOSFODNN7EXAMPLE is unknown', 'the key [key] is unknown'],
    ['bad key AIzaSyD-1234567890abcdefghijklmnopqrs', 'bad key [key]'],
    ['login failed with password: hunter2, sorry', 'login failed with password: [removed], sorry'],
    ['{"password": "my pass word", "user": "x"}', '{"password": [removed], "user": "x"}'],
    ["DB_PASSWORD='a b", 'DB_PASSWORD=[removed]'],
    [
      'api_key=abcd, API Key: efgh; client_secret=ijkl',
      'api_key=[removed], API Key: [removed]; client_secret=[removed]',
    ],
    ['auth-token: zz99', 'auth-token: [removed]'],
    ['token: a1b2c3d4e5', 'token: [removed]'],
    ["Unexpected token: '}', max_tokens: 100", "Unexpected token: '}', max_tokens: 100"],
    ['password is required', 'password is required'],
    ['Authorization: Basic dXNlcjpwYXNz=', 'Authorization: [key]'],
    ['basic authentication failed', 'basic authentication failed'],
    ['jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln was rejected', 'jwt [key] was rejected'],
    ['no ghp_abcdefABCDEF1234 or xoxb-123456-abcdef', 'no [key] or [key]'],
    ['-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKC\n-----END RSA PRIVATE KEY-----\nis bad', '[key] is bad'],
    ['bad -----BEGIN PRIVATE KEY-----\nMIIEpA IBAAKC', 'bad [key]'],
    ['connect postgres://bob:s3cret@db/prod failed', 'connect [address] failed'],
    ['connect bob:s3c#et!@db:5432/prod failed', 'connect [address] failed'],
    ['1https://internal.example and xyz+abc://x', '[address] and [address]'],
  ])('%j becomes %j', (message, safe) => {
    expect(safeMessage(message)).toBe(safe)
  })

  it('is short, and quick on hostile input', () => {
    expect(safeMessage('word '.repeat(100_000)).length).toBeLessThanOrEqual(500)
    expect(safeMessage(`${'word '.repeat(99)}123😀${'word '.repeat(99)}`).isWellFormed()).toBe(true)
    for (const piece of [
      'a',
      '/',
      'a.',
      'a@',
      'a@a.',
      'org-',
      'org-1',
      '.local',
      'sk-',
      '1.',
      '\n',
      'http://',
      '-',
      'a ',
      '%25',
      '- ',
      'a b',
      ':',
      '[a:',
    ])
      safeMessage(piece.repeat(100_000))
  })
})
