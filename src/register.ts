/** `node --import rondo/register` lets Node.js load TypeScript files, on every runtime that Rondo supports. */
import "jiti/register";
