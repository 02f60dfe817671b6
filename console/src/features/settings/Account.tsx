import { CopyButton } from '../../parts/CopyButton.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { useCustomerId, useSession } from '../../shell/use-session.ts'
import { Sharing } from './Sharing.tsx'
import { You } from './You.tsx'

/** The person that is signed in, and the customer of the address. */
export function Account() {
  const { memberships } = useSession()
  const customerId = useCustomerId()
  const membership = memberships.find(({ customer_id }) => customer_id === customerId)
  return (
    <>
      <You />
      <Panel title="This customer">
        <Facts
          facts={{
            'Billing address': membership?.email,
            'Your role': membership?.role ?? 'none: you look as an operator',
            Id: (
              <>
                <code>{customerId}</code> <CopyButton text={customerId} what="the id of the customer" />
              </>
            ),
          }}
        />
      </Panel>
      <Sharing />
    </>
  )
}
