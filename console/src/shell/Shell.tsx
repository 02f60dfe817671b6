import { t } from '@lingui/core/macro'
import { useDisclosure } from '@mantine/hooks'
import { Link, Outlet, useLocation } from '@tanstack/react-router'
import { lazy, type ReactNode, Suspense, useEffect, useState } from 'react'
import { fromGateway } from '../api/gateway-link.ts'
import { AccountMenu } from './AccountMenu.tsx'
import { Frame, NavLinks, type PageLink } from './Frame.tsx'
import type { NavItem } from './nav-items.tsx'
import { Offline } from './Offline.tsx'
import { FactorNotice } from './on-demand.ts'
import { Switcher } from './Switcher.tsx'
import styles from './shell.module.css'
import { useFindKey } from './use-find-key.ts'
import { useSession } from './use-session.ts'

// The first screen needs none of these.
const ConfirmIdentity = lazy(
  fromGateway(async () => ({ default: (await import('./ConfirmIdentity.tsx')).ConfirmIdentity })),
)
const MenuDrawer = lazy(fromGateway(async () => ({ default: (await import('./MenuDrawer.tsx')).MenuDrawer })))
const FindPage = lazy(fromGateway(async () => ({ default: (await import('./FindPage.tsx')).FindPage })))

const RouterLink: PageLink = ({ to, isExact = false, className, children }) => (
  <Link to={to} className={className} activeOptions={{ exact: isExact, includeSearch: false }}>
    {children}
  </Link>
)

/**
 * The frame of all screens with its menus, and the screen in it.
 *
 * @param props.top the right end of the header
 * @param props.notice a line above every screen
 */
export function Shell({ items, top, notice }: { items: readonly NavItem[]; top?: ReactNode; notice?: ReactNode }) {
  const [isMenuOpen, menu] = useDisclosure()
  // Once opened, it stays loaded.
  const [hasMenu, setMenu] = useState(false)
  const [isFinding, find] = useDisclosure()
  useFindKey(find.open)
  const { pathname } = useLocation()
  const { person, has_factor: hasFactor, needs_second_factor: needsFactor } = useSession()
  const lacksFactor = person.role !== null && (needsFactor || !hasFactor) && pathname !== '/account/second-factor'
  // Both close when a link in them was followed.
  useEffect(() => {
    menu.close()
    find.close()
  }, [pathname])
  return (
    <>
      <Frame
        items={items}
        PageLink={RouterLink}
        switcher={<Switcher />}
        account={<AccountMenu />}
        top={top}
        notice={
          (lacksFactor || notice) && (
            <Suspense>
              {notice}
              {lacksFactor && <FactorNotice />}
            </Suspense>
          )
        }
        onFind={find.open}
        onMore={() => {
          setMenu(true)
          menu.open()
        }}
      >
        <Offline />
        <main id="main">
          <Suspense>
            <Outlet />
          </Suspense>
        </main>
      </Frame>
      <Suspense>
        {hasMenu && (
          <MenuDrawer isOpen={isMenuOpen} onClose={menu.close}>
            <div className={styles.nav}>
              <NavLinks items={items.slice(4)} PageLink={RouterLink} className={styles.navLink} />
              <button
                type="button"
                className={styles.navLink}
                aria-haspopup="dialog"
                onClick={() => {
                  menu.close()
                  find.open()
                }}
              >{t`Find`}</button>
              <a href="/docs" className={styles.navLink}>{t`API reference`}</a>
            </div>
            <Switcher />
            <AccountMenu />
          </MenuDrawer>
        )}
      </Suspense>
      <Suspense>
        <ConfirmIdentity />
        {isFinding && <FindPage items={items} onClose={find.close} />}
      </Suspense>
    </>
  )
}
