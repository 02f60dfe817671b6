import { Button } from '@mantine/core'
import { CodeBlock } from '../../parts/CodeBlock.tsx'

/** Recovery codes, which are shown once. */
export function StoredCodes({ codes, onStored }: { codes: readonly string[]; onStored: () => void }) {
  return (
    <>
      <p>Store these recovery codes. Each works once if you lose your phone. They are not shown again.</p>
      <CodeBlock code={codes.join('\n')} what="the recovery codes" />
      <div>
        <Button onClick={onStored}>I have stored them</Button>
      </div>
    </>
  )
}
