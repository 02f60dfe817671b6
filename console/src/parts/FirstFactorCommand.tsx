import { t } from '@lingui/core/macro'
import { CodeBlock } from './CodeBlock.tsx'

/** Says how an operator who signed in with only a password adds a second factor: such a session must not be able to add one itself. */
export function FirstFactorCommand({ command }: { command: string }) {
  return (
    <div style={{ display: 'grid', gap: 12 }}>
      <p>{t`Your role on this installation needs a passkey or an authenticator app, and you have none. A password alone cannot add the first one: it may be stolen. Run this on the host of the gateway, open the link that it prints, set a password again, and add one on the next page.`}</p>
      <CodeBlock code={command} what={t`the command`} />
    </div>
  )
}
